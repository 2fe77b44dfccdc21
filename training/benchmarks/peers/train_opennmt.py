"""Training steps of OpenNMT-tf, with its model and its loss, in one tf.function.

Runs in `opennmt/`.
"""

import common as c
import opennmt
import tensorflow as tf
from opennmt_model import build, features, to_opennmt

options = c.training_options().parse_args()
model = build(options.config)
optimizer = tf.keras.optimizers.Adam(1e-4)
ids = tf.TensorSpec((None, None), tf.int32)


@tf.function(input_signature=[ids] * 3)
def step(source, target, labels):
    wanted = features(target)
    wanted["ids_out"] = labels
    with tf.GradientTape() as tape:
        outputs, _ = model(features(source), labels=wanted, training=True)
        loss, norm, _ = model.compute_loss(outputs, wanted, training=True)
        loss = loss / norm
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return loss


# The first call builds the variables.
(batch,) = c.Workload(c.DATA).training_batches(limit=1)
source, target, labels = (tf.constant(to_opennmt[array[:2]]) for array in batch)
first = features(target)
first["ids_out"] = labels
model(features(source), labels=first, training=True)
optimizer.build(model.trainable_variables)


def run(batches):
    for batch in batches:
        step(*(tf.constant(to_opennmt[array]) for array in batch)).numpy()


c.measure_training(
    f"OpenNMT-tf (TF {tf.__version__})",
    options,
    run,
    params=sum(int(tf.size(variable)) for variable in model.trainable_variables),
    version=opennmt.__version__,
)
