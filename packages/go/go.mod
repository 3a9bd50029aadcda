module parshall/parshalltest

go 1.22
