module example.org/rlock

go 1.22
