module example.org/service

go 1.22

require example.org/rlock v0.0.0

replace example.org/rlock => ../../bindings/go
