"""Experiments: training configurations in rl-baselines3-zoo style, and the trainer that runs them."""
