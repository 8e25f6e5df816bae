"""Run a comparison from Python: same schema, records and report as with an experiment file."""

import sys

import levelfield as lf

if __name__ == "__main__":  # runs may start worker processes, which import this file
    experiment = lf.Experiment.build(
        name="from-python",
        preset="demo",
        methods=["contrastive", {"name": "semihard triplet", "loss": "triplet", "miner": "semihard"}],
        split={"folds": 2},
        training={"max_epochs": 2},
        search={"trials": 2},
        confirm={"reruns": 2},
    )
    result = lf.run(experiment, out=sys.argv[1] if len(sys.argv) > 1 else None)
    print(result.table)  # test scores, best method first
    print(result.pairs)  # every pair of methods: difference, interval, verdict
    print(result.verdict)
    print("report:", result.report)
