import hashlib
import json
import os
import subprocess
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from rlcore.errors import ModelError
from rlcore.weights import cache_folder, resolve_model, whole_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODELS = {
    "acme/tiny": {
        "config.json": b"{}",
        "model.safetensors": b"weights",
        "tokenizer.json": b"{}",
        "run_me.py": b"evil",
        "flax.msgpack": b"big",
    },
    "acme/pickled": {"config.json": b"{}", "pytorch_model.bin": b"pickle"},
}


class StubHub(BaseHTTPRequestHandler):
    """The few answers that the hub's own client asks for before it has a model's files."""

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        path = urlsplit(self.path).path
        self.server.asked.append(path)
        for name, files in MODELS.items():
            if path.startswith(f"/api/models/{name}/tree/"):
                entries = [
                    dict(type="file", path=file, size=len(content), oid=hashlib.sha1(content).hexdigest())
                    for file, content in files.items()
                ]
                return self.answer(200, json.dumps(entries).encode())
            if path.startswith(f"/api/models/{name}"):
                siblings = [{"rfilename": file} for file in files]
                return self.answer(200, json.dumps(dict(id=name, sha=COMMIT, siblings=siblings, tags=[])).encode())
            if path == f"/api/v1/models/{name}/repo/files":
                listed = [dict(Name=file, Path=file, Type="blob", Size=len(content)) for file, content in files.items()]
                return self.answer(200, json.dumps(dict(Code=200, Success=True, Data={"Files": listed})).encode())
            if path == f"/api/v1/models/{name}/repo":
                return self.answer(200, files[parse_qs(urlsplit(self.path).query)["FilePath"][0]])
            if path.startswith(f"/{name}/resolve/"):
                content = files[path.split("/", 5)[-1]]
                return self.answer(
                    200, content, {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
                )
        return self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **dict(headers)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), StubHub)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ask(sources, settings):
    """What each source resolves to, a line each, in a process of its own: the clients read their settings at import."""
    script = """
import sys
from rlcore.weights import resolve_model
for source in sys.argv[1:]:
    try:
        folder = resolve_model(source)
        print(folder.name, *sorted(child.name for child in folder.iterdir() if child.suffix))
    except Exception as error:
        print(type(error).__name__, error)
"""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", script, *sources],
        env={**os.environ, **settings, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_hub_ids_are_fetched_through_the_hubs_own_client(hub, tmp_path):
    settings = {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    sources = ["hf:acme/tiny", "hf:acme/tiny@v2", "hf:acme/none", "hf:acme/pickled"]
    first, second, third, fourth = ask(sources, settings)
    assert first == second == f"{COMMIT} config.json model.safetensors tokenizer.json"
    assert "/api/models/acme/tiny/revision/v2" in hub.asked
    assert third.startswith("ModelError model 'hf:acme/none' could not be fetched: RepositoryNotFoundError")
    assert "give a local folder instead" in third
    assert fourth.startswith("ModelError model 'hf:acme/pickled' has no *.safetensors weights")
    assert fourth.endswith("found: config.json")


def test_modelscope_is_asked_through_its_own_client(monkeypatch, tmp_path):
    asked = []

    def snapshot_download(model_id, *, revision, allow_patterns):
        asked.append((model_id, revision))
        if model_id == "acme/none":
            raise KeyError("not on this hub")
        (tmp_path / "config.json").write_text("{}")
        (tmp_path / "model.safetensors").write_text("")
        return str(tmp_path)

    monkeypatch.setitem(sys.modules, "modelscope", types.SimpleNamespace(snapshot_download=snapshot_download))
    assert resolve_model("modelscope:acme/tiny@v3") == tmp_path
    assert asked == [("acme/tiny", "v3")]
    with pytest.raises(ModelError, match="'modelscope:acme/none' could not be fetched: KeyError: 'not on this hub'"):
        resolve_model("modelscope:acme/none")


def test_the_real_modelscope_client_where_it_is_installed(hub, tmp_path):
    pytest.importorskip("modelscope")
    address = f"http://127.0.0.1:{hub.server_port}"
    settings = {"MODELSCOPE_DOMAIN": address, "MODELSCOPE_ENDPOINT": address, "MODELSCOPE_CACHE": str(tmp_path)}
    done = ask(["modelscope:acme/tiny", "modelscope:acme/tiny@v2"], settings)
    files = "config.json model.safetensors tokenizer.json"
    assert done == [
        f"master {files}",
        f"v2 {files}",
    ]


def test_without_modelscope_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "modelscope", None)
    with pytest.raises(ModelError, match=r"needs the package 'modelscope'.*pip install modelscope"):
        resolve_model("modelscope:acme/tiny")


def test_a_folder_is_itself_and_one_without_a_model_says_what_is_there(tmp_path):
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / "config.json").write_text("{}")
    (tmp_path / "run" / "metrics.jsonl").write_text("")
    assert resolve_model(tmp_path / "run" / "model") == tmp_path / "run" / "model"
    with pytest.raises(
        ModelError, match=r"has no config\.json; found: metrics\.jsonl, model\. Did you mean '.*run/model'"
    ):
        resolve_model(str(tmp_path / "run"))
    with pytest.raises(ModelError, match="is a file"):
        resolve_model(tmp_path / "run" / "metrics.jsonl")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("acme/tiny", "write hf:acme/tiny or modelscope:acme/tiny"),
        ("tiny_countdwn", "Did you mean 'tiny_countdown'"),
        ("qwem", "is no folder .Did you mean 'qwen'"),
        ("hf:tiny", "'tiny' is no hub id; a model is a folder, hf:ORG/NAME"),
        ("hg:acme/tiny", "unknown hub 'hg'"),
    ],
)
def test_a_name_that_is_no_folder_says_how_models_are_named(source, said, tmp_path, monkeypatch):
    (tmp_path / "qwen").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=said):
        resolve_model(source)


def test_a_folder_is_there_whole_or_not_at_all(tmp_path):
    target = tmp_path / "models" / "a"
    with pytest.raises(KeyError), whole_folder(target) as folder:
        (folder / "half").write_text("")
        raise KeyError
    assert list(target.parent.iterdir()) == []
    with whole_folder(target) as folder:
        (folder / "whole").write_text("mine")
        assert not target.exists()
    with whole_folder(target) as folder:
        (folder / "whole").write_text("later")
    with pytest.raises(FileNotFoundError), whole_folder(target) as folder:
        (folder / "absent").read_text()  # an error of the block, although the folder is there
    assert (target / "whole").read_text() == "mine"
    assert [child.name for child in target.parent.iterdir()] == ["a"]


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("RLCORE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("RLCORE_CACHE")
    assert cache_folder().parts[-2:] == (".cache", "rlcore")
