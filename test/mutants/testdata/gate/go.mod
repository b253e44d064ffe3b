module example.test/gate

go 1.26
