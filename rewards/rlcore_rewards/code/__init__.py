"""Rewards for Python code: run against a row's tests, in a sandbox."""

from rlcore_rewards.code.extract import extract_code
from rlcore_rewards.code.layouts import Asserts, Calls, Problem, Programs, problem_of
from rlcore_rewards.code.remote import Service
from rlcore_rewards.code.reward import PythonCode

__all__ = ["Asserts", "Calls", "Problem", "Programs", "PythonCode", "Service", "extract_code", "problem_of"]
