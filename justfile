# Every recipe is one command that works without just.

# build bin/meshctl
build:
    go build -o bin/meshctl ./cli/meshctl

# all tests
test:
    go test ./...

# whole jobs a second, and where one job's time goes
bench:
    go test -run '^$' -bench BenchmarkSubmit ./mesh/node

# format, vet, staticcheck
lint:
    .ci/lint

# ten seconds of each fuzz test
fuzz:
    .ci/fuzz

# a mesh of three processes with simulated GPUs
dev:
    go run ./cli/meshctl dev

# the first job of the README
demo:
    go run ./cli/meshctl submit ./wasm-examples/search --input corpus="$(go env GOROOT)/src/net" --wait -- "how does the resolver choose between IPv4 and IPv6"
