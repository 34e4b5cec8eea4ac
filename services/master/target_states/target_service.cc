#include "services/master/target_states/target_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/status/errors.h"
#include "common/storage/target_table.h"
#include "services/master/base/errors.h"
#include "services/master/requests/page_budget.h"
#include "services/master/requests/page_token.h"
#include "services/master/requests/resource_name.h"
#include "services/master/target_states/target_status.h"

namespace escapement::master {
namespace {

constexpr uint32_t kRowsAtOnce = 1000;

// Reads the targets of a tenant in the order of their ids, from `begin` on.
class Listing : public std::enable_shared_from_this<Listing> {
 public:
  struct Query {
    std::string tenant;
    std::string begin;  // key; the first row of a target
    std::string end;
    size_t targets_max = 0;
  };
  struct Page {
    std::vector<v1::TargetStatus> targets;
    std::optional<Uid> next;  // the first target of the next page
  };

  Listing(MasterContext& context, Query query, absl::AnyInvocable<void(absl::StatusOr<Page>)> done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {}

  void Step() {
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kTargetStates;
    scan.begin = query_.begin;
    scan.end = query_.end;
    scan.limit = kRowsAtOnce;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return self->done_(StoreFailed(result.status()));
                           self->OnRows(*result);
                         });
  }

 private:
  void OnRows(const kv::ScanResult& result) {
    const int64_t oldest = ToMicros(context_.client.NowLow() - kTargetRowValidFor);
    for (const kv::Entry& entry : result.entries) {
      const std::optional<TargetRowName> name = DecodeTargetRowKey(entry.key);
      HandlerRow row;
      if (!name.has_value() || !row.record.ParseFromString(entry.value))
        return done_(BrokenRecord("the state of a target"));
      query_.begin = KeyAfter(entry.key);
      // Its handler is dead.
      if (row.record.state().update_time_micros() < oldest) continue;
      if (target_ != name->target && !EndTarget()) return EndPage();
      target_ = name->target;
      row.handler = name->handler;
      rows_.push_back(std::move(row));
    }
    if (result.more && !result.entries.empty()) return Step();
    if (!EndTarget()) return EndPage();
    done_(std::move(page_));
  }

  // Shows the target whose rows have been read. False if it does not fit on the page.
  bool EndTarget() {
    if (rows_.empty()) return true;
    v1::TargetStatus shown = ShowTarget(query_.tenant, target_, rows_);
    if (page_.targets.size() == query_.targets_max || !budget_.Take(shown)) return false;
    page_.targets.push_back(std::move(shown));
    rows_.clear();
    return true;
  }

  void EndPage() {
    page_.next = target_;
    done_(std::move(page_));
  }

  MasterContext& context_;
  Query query_;
  absl::AnyInvocable<void(absl::StatusOr<Page>)> done_;
  Uid target_;                    // the target of `rows_`
  std::vector<HandlerRow> rows_;  // read, and not shown yet
  Page page_;
  PageBudget budget_;
};

}  // namespace

void TargetService::ListTargets(v1::ListTargetsRequest request,
                                Done<v1::ListTargetsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  std::string list = absl::StrCat("ListTargets ", *tenant);
  const absl::StatusOr<int32_t> size = ReadPageSize(request.page_size());
  const absl::StatusOr<std::string> begin = DecodePageToken(list, request.page_token());
  FieldViolations violations;
  violations.AddStatus("", size.status());
  violations.AddStatus("", begin.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const std::string prefix = TargetRowPrefix(*tenant);
  std::make_shared<Listing>(
      context_,
      Listing::Query{
          .tenant = *tenant,
          .begin = begin->empty() ? prefix : TargetRowPrefix(*tenant, Uid::FromBytes(*begin)),
          .end = PrefixEnd(prefix),
          .targets_max = static_cast<size_t>(*size)},
      [list = std::move(list), done = std::move(done)](absl::StatusOr<Listing::Page> page) mutable {
        if (!page.ok()) return done(page.status());
        v1::ListTargetsResponse response;
        for (v1::TargetStatus& target : page->targets) *response.add_targets() = std::move(target);
        if (page->next.has_value())
          response.set_next_page_token(EncodePageToken(list, page->next->bytes()));
        done(std::move(response));
      })
      ->Step();
}

void TargetService::GetTarget(v1::GetTargetRequest request, Done<v1::TargetStatus> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<TargetName> name = ParseTargetName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  const std::string prefix = TargetRowPrefix(name->tenant, name->target);
  std::make_shared<Listing>(
      context_,
      Listing::Query{
          .tenant = name->tenant, .begin = prefix, .end = PrefixEnd(prefix), .targets_max = 1},
      [resource = request.name(),
       done = std::move(done)](absl::StatusOr<Listing::Page> page) mutable {
        if (!page.ok()) return done(page.status());
        if (page->targets.empty()) return done(NotFound(resource));
        done(std::move(page->targets[0]));
      })
      ->Step();
}

}  // namespace escapement::master
