// Keeps gRPC from telling its peer of room that the peer does not need yet.
//
// HTTP/2 lets a sender send no more on a stream than its receiver has said that there is room for.
// gRPC 1.51 says so at once whenever somebody waits for a message and anything has come since it
// last did (StreamFlowControl::UpdateAction in src/core/ext/transport/chttp2/transport/
// flow_control.cc): a WINDOW_UPDATE of its own for nearly each read of a stream, which is a system
// call here, a wake and a read there, though the sender has room for 64 KiB at least and soon for
// megabytes.
//
// Here such an update waits for the next write of the connection until it is worth kWaitingMax. As
// long as the window of a stream is at least twice that, the sender does not run out of room
// meanwhile: what it may still send is the window less what it has not been told of, in which a
// message that is being received counts to its end. Where gRPC has made windows smaller, as it does
// when memory is short, it is as without us; the write that tells of the smaller window tells of
// all that has waited.
//
// Nothing offers this as an option; but the function is found in the program before gRPC's library.
// It is not declared in what is installed, and of that version's objects we read three fields, so
// there is nothing of this in a program that is built with another one.

#include "grpcpp/version_info.h"

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/rpc/real_function.h"

#define UPDATE_ACTION \
  "_ZN9grpc_core6chttp217StreamFlowControl12UpdateActionENS0_17FlowControlActionE"
#define DESIRED_ANNOUNCE_SIZE "_ZNK9grpc_core6chttp217StreamFlowControl19DesiredAnnounceSizeEv"

extern "C" {

enum FlowControlUrgency : uint8_t { kNotNeeded, kAtOnce, kWithNextWrite };

struct FlowControlAction {
  FlowControlUrgency stream_update;
  FlowControlUrgency transport_update;
  FlowControlUrgency initial_window_update;
  FlowControlUrgency max_frame_size_update;
  uint32_t initial_window_size;
  uint32_t max_frame_size;
};

struct StreamFlowControl {
  const char* transport;  // its TransportFlowControl
};

// What to do after something was received or is waited for. `action` says what is to be done for
// the connection.
FlowControlAction UpdateAction(StreamFlowControl* stream,
                               FlowControlAction action) asm(UPDATE_ACTION);

}  // extern "C"

namespace {

// In TransportFlowControl, the window that each stream has when nothing has been received: as it is
// to be (target_initial_window_size_), and as the sender is known to know (acked_init_window_).
constexpr size_t kTargetWindowOffset = 0xc8;
constexpr size_t kAckedWindowOffset = 0xe0;

constexpr int64_t kWindowMin = 65'535;  // that of HTTP/2, with which a connection begins
constexpr uint32_t kWaitingMax = 32 << 10;
static_assert(2 * kWaitingMax <= kWindowMin + 1);

int64_t WindowOf(const StreamFlowControl& stream) {
  int64_t target = 0;
  uint32_t acked = 0;
  std::memcpy(&target, stream.transport + kTargetWindowOffset, sizeof(target));
  std::memcpy(&acked, stream.transport + kAckedWindowOffset, sizeof(acked));
  return std::min<int64_t>(target, acked);
}

}  // namespace

FlowControlAction UpdateAction(StreamFlowControl* stream, FlowControlAction action) {
  static auto* const real = escapement::RealFunction<decltype(UpdateAction)>(UPDATE_ACTION);
  // What the sender has not been told of yet.
  static auto* const untold =
      escapement::RealFunction<uint32_t(const StreamFlowControl*)>(DESIRED_ANNOUNCE_SIZE);
  action = real(stream, action);
  if (action.stream_update == kAtOnce && WindowOf(*stream) >= kWindowMin &&
      untold(stream) < kWaitingMax)
    action.stream_update = kWithNextWrite;
  return action;
}

#endif  // gRPC 1.51
