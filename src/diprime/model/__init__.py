"""Fitted models: released numbers, and predictions from them.

- `trees`: complete binary trees as flat arrays, the regions of their nodes, and forests, which average their trees;
- `additive`: additive models, which sum their trees;
- `effects`: the terms, effects, steps and link of an additive model;
- `function_noise`: the noise of boosted functions, estimated by replaying the rounds with noise alone;
- `estimates`: denoised estimates from released sums, and the variance of their noise;
- `files`: model files, without pickle or code.
"""
