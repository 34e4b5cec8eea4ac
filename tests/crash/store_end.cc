#include "tests/crash/store_end.h"

#include <unistd.h>

#include <thread>
#include <utility>

namespace escapement::crash {
namespace {

[[noreturn]] void Stay() {
  while (true) pause();
}

}  // namespace

std::function<void(const absl::Status&)> StoreEnd::OnFatal(std::shared_ptr<StoreEnd> end) {
  return [end = std::move(end)](const absl::Status& status) { end->End(status); };
}

absl::Status StoreEnd::Run(const std::shared_ptr<StoreEnd>& end, std::function<void()> call) {
  {
    absl::MutexLock lock(&end->mu_);
    end->returned_ = false;
  }
  std::thread thread([end, call = std::move(call)] {
    call();
    end->UnlessEnded([&] { end->returned_ = true; });
  });
  absl::Status fatal;
  {
    absl::MutexLock lock(&end->mu_);
    auto over = [&] { return end->returned_ || !end->fatal_.ok(); };
    end->mu_.Await(absl::Condition(&over));
    fatal = end->fatal_;
  }
  fatal.ok() ? thread.join() : thread.detach();
  return fatal;
}

void StoreEnd::UnlessEnded(const std::function<void()>& write) {
  {
    absl::MutexLock lock(&mu_);
    if (fatal_.ok()) return write();
  }
  Stay();
}

void StoreEnd::End(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    if (fatal_.ok()) fatal_ = status;
  }
  Stay();
}

}  // namespace escapement::crash
