__version__ = "0.1.0"
METHOD_VERSION = 9  # raised where a change of the method changes results: `tests/test_golden.py` holds them
