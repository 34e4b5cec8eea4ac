// TransferLoop: one thread that carries libcurl transfers, for transports whose requests are not
// one HTTP request for each event (SQS, e-mail).
//
// Each transfer uses a handle of the loop, with common options: no redirects, no proxies of the
// environment, only the loop's protocols, verified certificates, addresses by the loop's
// AddressRule. Connections are kept alive and reused. At most transfers_max run at once; further
// ones wait in their order, while their deadlines run.
//
// One thread drives all transfers, so it is only for protocols that libcurl carries without
// blocking. SMTP is none of them: libcurl 7.88 waits inside curl_multi_perform for the answer to
// DATA and to QUIT.
//
// Threads: Start may be called from any thread, also from OnEnd. The calls of a transfer come on
// the loop's thread. Calls after the destructor has begun come on the thread of the destructor or
// of Start.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_TRANSFER_LOOP_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_TRANSFER_LOOP_H_

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/net/address_rule.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/http/curl_multi.h"

namespace escapement::handler {

// How a transfer ended.
struct TransferEnd {
  CURLcode code = CURLE_OK;
  std::string error;  // from libcurl; empty if all went well
  // True: nothing has been written, because the transfer waited too long, could not be prepared, or
  // had no address that is allowed.
  bool unsent = false;
  bool refused = false;  // no address of the name is allowed by the AddressRule
};

class Transfer {
 public:
  virtual ~Transfer() = default;
  // Sets what is special to this transfer, before it starts. Data that it points to lives as long
  // as the transfer. CURLOPT_ERRORBUFFER and CURLOPT_OPENSOCKETDATA are the loop's; a
  // CURLOPT_TIMEOUT_MS may only be shorter than the time that is left. After an error OnEnd follows
  // with CURLE_FAILED_INIT and the error's message.
  virtual absl::Status Prepare(CURL* easy) = 0;
  // Exactly once. `easy` still has the answer's facts (curl_easy_getinfo); null if the transfer was
  // never started. The transfer is destroyed soon after.
  virtual void OnEnd(CURL* easy, const TransferEnd& end) = 0;
};

class TransferLoop {
 public:
  struct Options {
    std::string name = "transfers";  // the thread's; at most 15 characters
    std::string protocols;           // as libcurl writes them, e.g. "http,https"
    std::shared_ptr<const AddressRule> addresses;
    int transfers_max = 64;
    int connections_max = 64;  // idle ones that are kept
    absl::Duration connect_timeout = absl::Seconds(10);
  };

  explicit TransferLoop(Options options);
  // Ends what is under way with CURLE_ABORTED_BY_CALLBACK.
  ~TransferLoop();
  TransferLoop(const TransferLoop&) = delete;
  TransferLoop& operator=(const TransferLoop&) = delete;

  // The transfer ends at the latest `timeout` from now, to the millisecond. A transfer that has
  // waited for half of it ends as unsent. Timeouts beyond 20 days are cut to that.
  void Start(std::unique_ptr<Transfer> transfer, absl::Duration timeout);

 private:
  struct Waiting {
    std::unique_ptr<Transfer> transfer;
    MonotonicMicros start_by = 0;
    MonotonicMicros deadline = 0;
  };
  // libcurl has its address while the handle is in multi_.
  struct Running {
    std::unique_ptr<Transfer> transfer;
    CheckedSocket socket;
    char error[CURL_ERROR_SIZE] = {};
  };

  void Run();
  bool TakeInbox();  // false: the loop must stop
  void StartWaiting();
  Waiting TakeWaiting(uint64_t number);
  void DropTakenInFront();
  void StartOne(Waiting waiting);
  void EndExpired();
  void Reap();
  void End(CURL* easy, CURLcode code);
  CURL* TakeHandle();
  void FreeHandle(CURL* easy);

  const Options options_;
  CURLM* const multi_;
  // In the order of their start. An entry without a transfer has been taken already.
  std::deque<Waiting> waiting_;
  uint64_t first_waiting_ = 0;  // number of waiting_.front()
  // The waiting transfers by time: `start_by` and number.
  absl::btree_set<std::pair<MonotonicMicros, uint64_t>> by_start_;
  absl::flat_hash_map<CURL*, std::unique_ptr<Running>> running_;
  std::vector<CURL*> free_;
  absl::Mutex mutex_;
  std::vector<Waiting> inbox_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_TRANSFER_LOOP_H_
