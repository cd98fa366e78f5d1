"""The paper as it was published: what this package is measured against."""
