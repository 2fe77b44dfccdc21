"""Whether XLA is going to compile what is being traced."""

import tensorflow as tf
from tensorflow.python.ops import control_flow_util


def is_compiled_by_xla():
    """Whether this code is traced for `tf.function(jit_compile=True)`, directly or further out.

    XLA needs shapes that stay; everywhere else, those that grow are faster.

    >>> is_compiled_by_xla()
    False
    """
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
