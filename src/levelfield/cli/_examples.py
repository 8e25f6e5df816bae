"""One example for the help of every verb; a test parses each."""

from __future__ import annotations

import typer

EXAMPLES = {
    "demo": "levelfield demo",
    "new": "levelfield new my-comparison --photos ~/photos",
    "doctor": "levelfield doctor --root ~/datasets",
    "plan": "levelfield plan my-comparison.yaml",
    "power": "levelfield power runs/my-comparison",
    "run": "levelfield run my-comparison.yaml --set search.trials=20 --track tensorboard",
    "report": "levelfield report runs/my-comparison --figures",
    "compare": "levelfield compare runs/one runs/other",
    "sweep": "levelfield sweep my-comparison.yaml --over head.size=32,64,128",
    "reproduce": "levelfield reproduce runs/my-comparison",
    "verify": "levelfield verify runs/my-comparison",
    "archive": "levelfield archive runs/my-comparison -o results/my-comparison",
    "track": "levelfield track runs/my-comparison --to tensorboard",
    "evaluate": "levelfield evaluate embeddings.npz",
    "export": "levelfield export runs/my-comparison --method triplet -o model",
    "export-study": "levelfield export-study runs/my-comparison -o study.db",
    "index": "levelfield index pictures --model model -o index",
    "search": "levelfield search index photo.jpg",
    "ls": "levelfield ls losses",
    "serve": "levelfield serve runs",
    "site": "levelfield site results -o site",
    "study test-feedback": "levelfield study test-feedback my-comparison.yaml",
    "study search-luck": "levelfield study search-luck my-comparison.yaml",
    "study metrics-on-random": "levelfield study metrics-on-random",
    "study metrics-on-toys": "levelfield study metrics-on-toys",
    "study toy-lines": "levelfield study toy-lines",
    "data fetch": "levelfield data fetch cub200 --root data",
    "data check": "levelfield data check folder --root photos",
    "data shift": "levelfield data shift cub200 --root data --out shift",
    "data overlap": "levelfield data overlap cub200 --root data",
    "data prepare": "levelfield data prepare cub200 --root data",
    "presets list": "levelfield presets list",
    "presets show": "levelfield presets show laptop",
    "published show": "levelfield published show --dataset cub200",
    "published tournament": "levelfield published tournament",
    "published figures": "levelfield published figures",
}


def add_examples(app: typer.Typer, prefix: str = "") -> None:
    """Put each verb's example below its help, also those of groups of verbs."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        if example := EXAMPLES.get(f"{prefix}{name}"):
            command.epilog = f"Example: {example}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{prefix}{group.name} ")
