"""The paper's data sets as stores: one module and command per data set, of files that the user has."""
