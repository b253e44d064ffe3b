module luck

go 1.26.0
