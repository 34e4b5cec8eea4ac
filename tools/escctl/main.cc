// escctl: the command line of Escapement.
//
// Data goes to stdout, words to stderr. Exit codes: 0 done, 1 the server refused or could not be
// reached, 2 wrong usage.

#include "tools/escctl/program.h"

int main(int argc, char** argv) { return escapement::escctl::RunProgram(argc, argv); }
