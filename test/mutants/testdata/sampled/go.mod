module example.test/sampled

go 1.26
