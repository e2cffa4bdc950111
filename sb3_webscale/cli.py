"""The command ``sb3-webscale``."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from sb3_webscale import __version__
from sb3_webscale.errors import WebscaleError

__all__ = ["build_parser", "main"]

_EXIT_ERROR = 2
_EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    :param arguments: words of the command line; those of the process by default
    :return: exit code: 0, 2 for an error that the message explains, 130 when interrupted
    """
    parsed = build_parser().parse_args(arguments)
    if threading.current_thread() is threading.main_thread():
        # A scheduler's SIGTERM ends a run as Ctrl-C does, so that it is recorded as killed.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Torch and MLflow take seconds to import; a command imports only what it needs.
        module, function = parsed.command
        getattr(import_module(f"sb3_webscale.commands.{module}"), function)(parsed)
    except WebscaleError as error:
        if parsed.traceback:
            raise
        print(f"sb3-webscale: error: {error}", file=sys.stderr)
        return _EXIT_ERROR
    except KeyboardInterrupt:
        print("sb3-webscale: interrupted", file=sys.stderr)
        return _EXIT_INTERRUPTED
    return 0


def build_parser() -> argparse.ArgumentParser:
    """:return: parser of the whole command line"""
    parser = argparse.ArgumentParser(
        prog="sb3-webscale", description="Replay, data and reproducible runs for Stable-Baselines3."
    )
    parser.add_argument("--version", action="version", version=f"sb3-webscale {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_train(commands)
    _add_reproduce(commands, "reproduce")
    _add_runs(commands)
    _add_plugins(commands)
    _add_data(commands)
    return parser


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _command(commands: _Commands, name: str, module: str, function: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(command=(module, function))
    parser.add_argument("--traceback", action="store_true", help="show where an error was raised")
    return parser


def _add_train(commands: _Commands) -> None:
    parser = _command(commands, "train", "train", "train_command", "train from a YAML configuration, tracked in MLflow")
    parser.add_argument("--config", required=True, type=Path, help="YAML file in rl-baselines3-zoo style")
    parser.add_argument("--env", help="environment id; may be left out when the file names exactly one")
    parser.add_argument("--algo", help="algorithm, in place of the file's")
    parser.add_argument("--seed", type=int, help="seed, in place of the file's (0 when it has none)")
    parser.add_argument("--n-timesteps", type=int, help="environment steps, in place of the file's")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change one value, such as gamma=0.9"
    )
    parser.add_argument("--output", type=Path, help="directory for the model, besides the copy in the store")
    parser.add_argument("--experiment", help="MLflow experiment (sb3_webscale)")
    parser.add_argument("--run-name", help="name of the run (environment and algorithm)")
    _add_store(parser)
    _add_progress(parser)


def _add_reproduce(commands: _Commands, name: str) -> None:
    text = "run a tracked run again and compare the hash of the final weights"
    parser = _command(commands, name, "runs", "reproduce_command", text)
    parser.add_argument("run_id", metavar="RUN_ID")
    parser.add_argument(
        "--base-dir", type=Path, help="directory of the paths in the configuration, when the data has moved"
    )
    _add_store(parser)
    _add_progress(parser)


def _add_runs(commands: _Commands) -> None:
    runs = commands.add_parser("runs", help="list, compare and reproduce tracked runs")
    actions = runs.add_subparsers(required=True, metavar="ACTION")
    parser = _command(actions, "list", "runs", "list_command", "list the runs of the store, newest first")
    parser.add_argument("--experiment", help="only the runs of this MLflow experiment")
    parser.add_argument("--limit", type=int, default=20, help="number of runs (20)")
    _add_store(parser)
    parser = _command(actions, "compare", "runs", "compare_command", "set two runs beside each other")
    parser.add_argument("run_ids", nargs=2, metavar="RUN_ID")
    parser.add_argument("--all", action="store_true", help="show equal lines too")
    _add_store(parser)
    _add_reproduce(actions, "reproduce")


def _add_plugins(commands: _Commands) -> None:
    plugins = commands.add_parser("plugins", help="show installed plugins")
    actions = plugins.add_subparsers(required=True, metavar="ACTION")
    _command(actions, "list", "plugins", "list_command", "list plugins, what they register, and those that failed")


def _add_data(commands: _Commands) -> None:
    data = commands.add_parser("data", help="check logs against rules")
    actions = data.add_subparsers(required=True, metavar="ACTION")
    parser = _command(actions, "check", "data", "check_command", "convert a log and show what came of its rows")
    parser.add_argument("rule", metavar="RULE", help="path of a YAML rule, or name of a plugin's converter")
    parser.add_argument("source", metavar="SOURCE", help="the log")
    parser.add_argument("--rows", type=int, default=3, help="transitions to show (3)")


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tracking-uri", help="MLflow store (MLFLOW_TRACKING_URI, else sqlite:///runs/mlflow.db)")


def _add_progress(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")


if __name__ == "__main__":
    sys.exit(main())
