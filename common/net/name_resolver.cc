#include "common/net/name_resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace escapement {
namespace {

constexpr absl::Duration kIdleMax = absl::Seconds(10);

NameResolver::Answer LookUp(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failed != 0)
    return absl::UnavailableError(
        absl::StrCat("cannot resolve ", host, ": ", gai_strerror(failed)));
  std::vector<std::string> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof(text), nullptr, 0,
                    NI_NUMERICHOST) == 0 &&
        std::find(addresses.begin(), addresses.end(), text) == addresses.end())
      addresses.emplace_back(text);
  }
  freeaddrinfo(found);
  if (addresses.empty()) return absl::UnavailableError(absl::StrCat(host, " has no address"));
  return addresses;
}

}  // namespace

struct NameResolver::Core {
  struct Asked {
    std::string host;
    std::function<void(Answer)> done;
  };

  // The work of one thread. It ends when there was nothing to do for a while.
  static void Run(std::shared_ptr<Core> core) {
    pthread_setname_np(pthread_self(), "name-resolver");
    while (true) {
      Asked asked;
      {
        absl::MutexLock lock(&core->mutex);
        const auto busy = [&core]() ABSL_SHARED_LOCKS_REQUIRED(core->mutex) {
          return core->stopped || !core->asked.empty();
        };
        ++core->idle;
        core->mutex.AwaitWithTimeout(absl::Condition(&busy), kIdleMax);
        --core->idle;
        if (core->stopped || core->asked.empty()) {
          --core->threads;
          return;
        }
        asked = std::move(core->asked.front());
        core->asked.pop_front();
      }
      Answer answer = LookUp(asked.host);
      // Its owner may be gone when the mutex is released; then `done` is not called.
      absl::MutexLock lock(&core->calling);
      {
        absl::MutexLock state(&core->mutex);
        if (core->stopped) continue;
        core->caller = std::this_thread::get_id();
      }
      asked.done(std::move(answer));
      asked.done = nullptr;
      absl::MutexLock state(&core->mutex);
      core->caller = std::thread::id();
    }
  }

  absl::Mutex calling;  // held while a `done` runs
  absl::Mutex mutex ABSL_ACQUIRED_AFTER(calling);
  std::deque<Asked> asked ABSL_GUARDED_BY(mutex);
  int threads ABSL_GUARDED_BY(mutex) = 0;
  int idle ABSL_GUARDED_BY(mutex) = 0;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  std::thread::id caller ABSL_GUARDED_BY(mutex);  // the thread whose `done` runs
};

NameResolver::NameResolver() : core_(std::make_shared<Core>()) {}

NameResolver::~NameResolver() {
  {
    absl::MutexLock lock(&core_->mutex);
    core_->stopped = true;
    // A `done` has dropped the last pointer to what owns the resolver.
    if (core_->caller == std::this_thread::get_id()) return;
  }
  // Waits for the end of a `done`.
  absl::MutexLock calling(&core_->calling);
}

void NameResolver::Resolve(std::string host, std::function<void(Answer)> done) {
  absl::MutexLock lock(&core_->mutex);
  core_->asked.push_back({std::move(host), std::move(done)});
  if (core_->idle >= static_cast<int>(core_->asked.size()) ||
      core_->threads >= kNameResolverThreadsMax)
    return;
  ++core_->threads;
  std::thread(&Core::Run, core_).detach();
}

bool NameResolver::IsAddress(absl::string_view host) {
  in6_addr address;
  const std::string text(host);
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

}  // namespace escapement
