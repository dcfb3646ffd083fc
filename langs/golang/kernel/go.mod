module github.com/sandgate/sandgate/langs/golang/kernel

go 1.26
