#!/bin/sh
# Makes the Python modules of Escapement's protos in the folder `stubs`, which the programs here import.
# Needs Debian's protobuf-compiler, protobuf-compiler-grpc and golang-github-gogo-googleapis-dev.
set -eu
cd "$(dirname "$0")"
protos=../../../proto
own=../../../third_party/googleapis
google=/usr/share/gocode/src/github.com/gogo/googleapis
mkdir -p stubs
protoc -I "$protos" -I "$own" -I "$google" --python_out=stubs --grpc_out=stubs \
  --plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin "$protos"/escapement/v1/*.proto
protoc -I "$own" -I "$google" --python_out=stubs google/api/annotations.proto google/api/field_behavior.proto \
  google/api/http.proto google/rpc/error_details.proto google/rpc/status.proto
