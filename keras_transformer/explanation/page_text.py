"""What the page of an explanation says about itself."""

from keras_transformer.explanation.verdict import AGREE_LITTLE, AGREE_WELL, HARDLY_CHANGED

ABOUT_MEASURES = """<p>For every token of the target, several answers to the question which tokens
of the source it came from. The stronger the colour, the more; point at a map, or go through it with
the arrow keys, for values. <span class="key"><b>Blue</b> speaks for the token, <b>orange</b>
against it.</span></p>
<ul>
<li><b>Attention</b>: the weights of cross-attention, the mean of all blocks and heads.</li>
<li><b>Rollout</b>: attention followed through all blocks back to the source tokens (Abnar &amp;
Zuidema 2020); of models alone that attend in encoder and decoder.</li>
<li><b>Gradient × input</b>: the gradient of the token's log-probability, times the source token's
embedding, in nats (Shrikumar et al. 2016). It is small where the model is certain, and then only
its order counts.</li>
<li><b>Erasure</b>: by how many nats the log-probability falls when the source token is taken away
(Li et al. 2016). It is measured, not estimated, but takes away one token at a time.</li>
</ul>"""

ABOUT_TOKENS = """<p>Open a token of the target for its numbers. Beside it stand its probability,
the agreement of attention with two other measures, and how much of the probability shuffled weights
move, of which more below.</p>"""

ABOUT_AGREEMENT = f"""<p>Kendall's tau-b of two orders of the source tokens, by the size of each
measure without its sign: 1 for the same order, 0 for no relation, -1 for the reverse. Shown are the
mean over the target tokens and its standard deviation, and for how many of them both measures have
the same strongest source token. From {AGREE_WELL:g} on we say that two
measures agree well, below {AGREE_LITTLE:g} that they agree little. No paper sets such bounds: these
are three of four and three of five pairs of tokens in the same order. Of a short sentence a tau
that two random orders often reach counts as little, too.</p>"""

ABOUT_CHANGES = f"""<p>If the output stays the same with other weights, they do not tell what it
came from (Jain &amp; Wallace 2019). <b>Shuffled</b>: each head and target token attends as sharply
as before, but to randomly chosen tokens. <b>Uniform</b>: to all alike, the baseline of Wiegreffe
&amp; Pinter 2019, who train a model anew for it; here the trained one is run with equal weights,
which only tells whether it relies on its own. The probability moved is the total variation distance
between the distributions of the next token before and after; below {HARDLY_CHANGED:.0%} we call it
hardly changed, a bound of ours, too.</p>"""

ABOUT_HEADS = """<p>Each row is a token that attends, named by what is written there; each column
one that is attended to. In each map the strongest colour is its own strongest weight.</p>"""

PAPERS = """<ul>
<li>Jain &amp; Wallace 2019, “Attention is not Explanation”, NAACL.</li>
<li>Wiegreffe &amp; Pinter 2019, “Attention is not not Explanation”, EMNLP.</li>
<li>Abnar &amp; Zuidema 2020, “Quantifying Attention Flow in Transformers”, ACL.</li>
<li>Shrikumar et al. 2016, “Not Just a Black Box: Learning Important Features Through Propagating
Activation Differences”.</li>
<li>Li, Monroe &amp; Jurafsky 2016, “Understanding Neural Networks through Representation
Erasure”.</li>
<li>Kendall 1945, “The Treatment of Ties in Ranking Problems”, Biometrika 33.</li>
</ul>"""
