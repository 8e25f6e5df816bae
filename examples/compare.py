"""A comparison from Python: same schema, same records, same report as an experiment file."""

import sys

import levelfield as lf
from levelfield.compare import collect
from levelfield.reports import write_report

if __name__ == "__main__":  # runs may start worker processes, which import this file
    experiment = lf.Experiment.build(
        name="from-python",
        preset="demo",
        methods=["contrastive", {"name": "semihard triplet", "loss": "triplet", "miner": "semihard"}],
        training={"max_epochs": 4},
        search={"trials": 2},
        confirm={"reruns": 2},
    )
    folder = lf.run(experiment, out=sys.argv[1] if len(sys.argv) > 1 else None)
    for result in collect(folder).results:
        interval = result.interval("concatenated", "map_at_r")
        print(f"{result.method:20} MAP@R {100 * interval.mean:.1f}")
    print("report:", write_report(folder))
