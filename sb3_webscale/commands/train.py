"""``sb3-webscale train``."""

from __future__ import annotations

import argparse

from sb3_webscale.commands.console import make_console
from sb3_webscale.experiments.config import load_config
from sb3_webscale.experiments.results import result_table
from sb3_webscale.experiments.trainer import train
from sb3_webscale.reproducibility.identity import RunIdentity
from sb3_webscale.reproducibility.seeding import SeedTree
from sb3_webscale.reproducibility.tracking import DEFAULT_EXPERIMENT, MlflowTracker, connect

__all__ = ["train_command"]


def train_command(arguments: argparse.Namespace) -> None:
    """Train one configuration and show what came of it.

    :param arguments: parsed command line
    """
    console = make_console()
    config = load_config(
        arguments.config,
        env_id=arguments.env,
        algo=arguments.algo,
        seed=arguments.seed,
        n_timesteps=arguments.n_timesteps,
        overrides=arguments.set,
    )
    client = connect(arguments.tracking_uri)
    name = arguments.run_name or f"{config.env_id}-{config.algo}"

    def announce(identity: RunIdentity, seeds: SeedTree) -> None:
        code = identity.package_code if identity.code.commit is None and identity.package_code else identity.code
        commit = code.commit[:12] if code.commit else "no git repository"
        console.print(f"seeds   {seeds}", highlight=False, soft_wrap=True)
        console.print(f"code    {commit}{' with changes' if code.dirty else ''}", highlight=False)

    with MlflowTracker(client, arguments.experiment or DEFAULT_EXPERIMENT, name) as tracker:
        console.print(f"run     {tracker.run_id} in {client.tracking_uri}", highlight=False, soft_wrap=True)
        result = train(
            config,
            tracker,
            output=arguments.output,
            progress=not arguments.no_progress,
            on_identity=announce,
        )
    console.print(result_table(result))
    console.print(f"compare: mlflow ui --backend-store-uri {client.tracking_uri}", highlight=False, soft_wrap=True)
