// CellMasters: a master's services in all cells, and which of them a tenant's calls go to.
//
// The home cell's store is the master's own, and its list of cells says where the other ones are.
// As soon as a cell is in the list, the master connects to its store and serves it, until it ends.
//
// A cell that cannot be reached costs its own tenants only: their calls are answered UNAVAILABLE
// (CELL_UNREACHABLE). Each cell has its own time zone database in force, as it has its own store; a
// cell whose database is not this machine's is not served.
//
// Threads: Start, Drain and the destructor belong to one thread, the rest to any.

#ifndef SERVICES_MASTER_SERVICE_CELL_MASTERS_H_
#define SERVICES_MASTER_SERVICE_CELL_MASTERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/kv_store.h"
#include "common/kv/wire/store_connection.h"
#include "common/runtime/runtime.h"
#include "common/tokens/token_door.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/options.h"
#include "services/master/cells/cell_service.h"
#include "services/master/service/master_service.h"

namespace escapement::master {

class CellMasters {
 public:
  // `store` and `admin` are the home cell's; `admin` may be null. They outlive it, as `runtime`
  // does.
  CellMasters(MasterOptions options, kv::KvStore& store, kv::StoreAdmin* admin, Runtime& runtime);
  // Drops what is under way: its callbacks are destroyed without being run.
  ~CellMasters();
  CellMasters(const CellMasters&) = delete;
  CellMasters& operator=(const CellMasters&) = delete;

  void Start();
  // True if the tenants are known, and one of the cells can be reached.
  bool Ready() const;
  // Why cells are not served, a line for each of them; empty: all are.
  std::string Problems() const;
  // Refuses new calls in all cells. `done` runs once all token doors have answered their calls.
  void Drain(Closure done);

  MasterService& home() { return home_; }
  // The service for the calls of a tenant. A tenant that does not exist has the home cell's.
  // UNAVAILABLE: its cell cannot be reached, or does not know the tenant yet.
  absl::StatusOr<MasterService*> Of(const std::string& tenant) const;
  // The calls of events of all tenants.
  EventApi& events();
  // The door for tokens of a cell other than the home cell. Null: no such cell is known.
  // UNAVAILABLE: it cannot be reached.
  absl::StatusOr<TokenApi*> DoorOf(uint32_t cell) const;
  // True if it has served other cells than the home cell.
  bool several() const;
  // True if the home cell can be reached.
  bool HomeReady() const;

 private:
  class Cell;
  class Events;
  class SignOfLife;

  void TakeCells();
  Cell* Find(uint32_t cell) const;
  ReachedCell Reach(uint32_t cell) const;

  const MasterOptions options_;
  kv::StoreAdmin* const admin_;
  Runtime& runtime_;
  mutable MasterService home_;
  const std::unique_ptr<SignOfLife> home_life_;  // begins with the first other cell
  const std::unique_ptr<Events> events_;
  mutable absl::Mutex mutex_;
  // Cells come, and stay.
  std::map<uint32_t, std::unique_ptr<Cell>> cells_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

// TokenService of a master: each token goes to the door of its cell. A request with tokens of
// several cells is done in each of them. If one of them fails or does not answer within ten
// seconds, the caller gets the error, and may repeat the request as after any other. Overrides go
// to the tenant's policies.
class CellTokens final : public TokenApi {
 public:
  // `home` is the home cell's door. Both outlive it.
  CellTokens(CellMasters& masters, TokenApi& home) : masters_(masters), home_(home) {}

  void CompleteTokens(const v1::CompleteTokensRequest& request,
                      Done<v1::CompleteTokensResponse> done) override;
  void ReleaseTokens(const v1::ReleaseTokensRequest& request,
                     Done<v1::ReleaseTokensResponse> done) override;
  void ExtendTokens(const v1::ExtendTokensRequest& request,
                    Done<v1::ExtendTokensResponse> done) override;
  void OverridePolicy(v1::OverridePolicyRequest request,
                      ::escapement::Done<v1::ThrottlePolicy> done) override;

 private:
  template <typename Request, typename Response>
  void GiveBack(const Request& request, void (TokenApi::*method)(const Request&, Done<Response>),
                Done<Response> done);

  CellMasters& masters_;
  TokenApi& home_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SERVICE_CELL_MASTERS_H_
