"""The conformance kit for anyone's package, and recorded numbers of other frameworks."""
