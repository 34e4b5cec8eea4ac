// escctl: the command line of Escapement.
//
// Data goes to stdout, words to stderr. Exit codes: session.h.

#include <cstdlib>

#include "tools/escctl/program/program.h"

int main(int argc, char** argv) {
  // Otherwise gRPC adds lines of its own about handshakes that fail. The command tells the error.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  return escapement::escctl::RunProgram(argc, argv);
}
