"""The devices, of one machine or of several, that share the rows of each batch."""

import tensorflow as tf


class Replicas:
    """What training needs of the `tf.distribute` strategy in whose scope it is made.

    Without any strategy there is one replica, and nothing of this costs anything.

    Attributes:
        strategy: the strategy.
        count: on how many devices, of all workers together, each batch is spread.
    """

    def __init__(self):
        self.strategy = tf.distribute.get_strategy()
        self.count = self.strategy.num_replicas_in_sync

    def iterate(self, batches, start=(0, 0)):
        """Returns an iterator over `Batches` without end; each replica gets its part of each."""
        if self.count == 1:
            return iter(batches.dataset(start=start))

        def make_dataset(context):
            return batches.dataset(
                start=start,
                worker=context.input_pipeline_id,
                workers=context.num_input_pipelines,
                replicas=self.count // context.num_input_pipelines,
            )

        # Parts are made for the replicas one by one; they need not be fetched ahead to a device.
        options = tf.distribute.InputOptions(experimental_fetch_to_device=False)
        return iter(self.strategy.distribute_datasets_from_function(make_dataset, options))

    def sum(self, values):
        """Adds up tensors over all replicas, inside `strategy.run`."""
        if self.count == 1:
            return values
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    def take_reduced_gradients(self, optimizer):
        """Tells a Keras optimizer that the gradients it gets are summed over the replicas already.

        Keras clips each replica's own gradients and sums them up afterwards, which is not what
        clipping by the global norm means. Here they are summed first.
        """
        if self.count == 1:
            return
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        if not hasattr(optimizer, "_all_reduce_sum_gradients"):
            raise NotImplementedError(
                "This version of Keras sums gradients over replicas in a way unknown here. Use "
                "one that setup.cfg names."
            )
        optimizer._all_reduce_sum_gradients = lambda gradients_and_variables: (
            gradients_and_variables
        )
