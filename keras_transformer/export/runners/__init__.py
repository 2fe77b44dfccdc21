"""Programs that run exports without TensorFlow and without this package.

`texts.py` and one `run_<format>.py` are copied into an export, the latter as `run.py`. They import
the runtime of the format, NumPy and sentencepiece, and nothing of this package.
"""
