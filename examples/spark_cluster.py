"""Fit to a table in Spark: rows stay in the executors, and the model is the same as in a single process.

Requires ``pip install 'diprime[spark]'`` and Java. In this example, Spark runs on this machine and makes a synthetic
table. For your own cluster, start the script with ``spark-submit``, and read the table with ``spark.read.parquet``.
"""

import os
import sys
from collections.abc import Iterator

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from diprime import Categorical, DiPriMeClassifier, Domain, Numeric

DOMAIN = Domain(
    {"age": Numeric(18, 90), "visits": Numeric(0, 50), "region": Categorical(["north", "south", "west"])},
    target=Categorical(["no", "yes"]),
)


def make_rows(numbers: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Yield the rows of a synthetic table, some for each number."""
    for number in (number for table in numbers for number in table["id"]):
        rng = np.random.default_rng(number)
        n = 20_000
        table = pd.DataFrame(
            {
                "age": rng.uniform(18, 90, n),
                "visits": rng.poisson(8, n).astype(float),
                "region": rng.choice(["north", "south", "west"], n),
            }
        )
        log_odds = (table["age"] - 50) / 15 + (table["visits"] - 8) / 3 - 2 * (table["region"] == "west")
        yield table.assign(ill=np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds)), "yes", "no"))


def main() -> None:
    """Fit in Spark, and predict there."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors of this machine run this Python
    spark = SparkSession.builder.getOrCreate()
    schema = "age double, visits double, region string, ill string"
    table = spark.range(0, 6, numPartitions=2).mapInPandas(make_rows, schema)
    model = DiPriMeClassifier(epsilon=1, domain=DOMAIN).fit(table, "ill")

    predicted = model.predict(table)  # a Spark DataFrame: nothing is computed yet
    right = predicted.where("prediction = ill").count() / predicted.count()

    print(f"columns of predict: {', '.join(predicted.columns)}")
    print(f"accuracy: {right:.2f}")
    print(f"epsilon spent: {float(model.privacy_.total):g}")


if __name__ == "__main__":
    main()
