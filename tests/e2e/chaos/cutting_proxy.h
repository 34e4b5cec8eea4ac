// CuttingProxy: TCP links on loopback that can be cut and healed, each in its own way: what a
// network does to services that are real processes.
//
// A link listens on a port of its own and passes every connection on to one upstream address. Bytes
// that a cut direction holds back stay in the kernel's buffers, so that a sender feels a full
// window, as on a network that loses its packets; a healed link delivers them late, or resets its
// connections.
//
// Threads: any; one thread of its own moves the bytes.

#ifndef TESTS_E2E_CHAOS_CUTTING_PROXY_H_
#define TESTS_E2E_CHAOS_CUTTING_PROXY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace escapement::chaos {

enum class Cut : uint8_t {
  kNone,
  kReset,      // connections are reset, new ones as soon as they are made
  kBlackHole,  // connections are accepted, and nothing comes through
  kNoRequest,  // nothing comes through from the client to the upstream
  kNoAnswer,   // nothing comes through from the upstream to the client
  kSlow,       // every byte is late by Options::slow
};

class CuttingProxy {
 public:
  struct Options {
    absl::Duration slow = absl::Milliseconds(150);
    size_t held_bytes_max = 256 << 10;  // of one direction of a connection that is slow
  };

  static absl::StatusOr<std::unique_ptr<CuttingProxy>> Start(const Options& options);
  static absl::StatusOr<std::unique_ptr<CuttingProxy>> Start() { return Start(Options()); }
  ~CuttingProxy();
  CuttingProxy(const CuttingProxy&) = delete;
  CuttingProxy& operator=(const CuttingProxy&) = delete;

  // A link to `upstream`, "127.0.0.1:port". The address to connect to.
  absl::StatusOr<std::string> AddLink(const std::string& name, const std::string& upstream);

  // Returns when it is in force. kNone heals; with `reset` the connections of the link are reset
  // then, and what they held is lost.
  void Set(const std::string& name, Cut cut, bool reset = false);

  // Connections of the link that were accepted so far.
  uint64_t connections(const std::string& name) const;

 private:
  class Loop;
  explicit CuttingProxy(std::unique_ptr<Loop> loop);
  std::unique_ptr<Loop> loop_;
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_CUTTING_PROXY_H_
