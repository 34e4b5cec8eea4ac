// Throttled delivery on this machine. Each figure has the bound it must keep. Both sides of a ratio
// come from the same run.
//
//   tools/dev bench throttle [--separate] [--events=200000] [and the flags of bench_run.h]
//
// Stages: completions, turnover, busy, unbound, fairness, several; and once, whatever the
// repetitions, beside_full, big (only with --separate) and keys (rows that it leaves are counted
// only with --separate). Consumer, platform and disk share the machine.

#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/figures/figures.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/bench/stages/throttle_stages.h"

ABSL_FLAG(bool, separate, false,
          "store, master, emitter, token manager and handler as processes of their own instead of "
          "standalone");
ABSL_FLAG(int64_t, events, 200'000, "of each stage that measures a rate");
ABSL_FLAG(int64_t, big_events, 1'000'000, "of the big batch, which goes once");
ABSL_FLAG(int64_t, key_events, 1'000'000, "with keys, which go once");

namespace escapement::bench {
namespace {

constexpr double kMiB = 1 << 20;

class ThrottleBench {
 public:
  ThrottleBench(const BenchSetting& setting, Figures* figures)
      : setting_(setting),
        scale_(setting.quick ? 10 : 1),
        events_(absl::GetFlag(FLAGS_events) / scale_),
        separate_(absl::GetFlag(FLAGS_separate)),
        figures_(*figures) {}

  // Starts a platform with a store of its own, in place of the former one.
  absl::Status Start(const std::string& name) {
    stages_.reset();
    const std::string folder = setting_.folder + "/" + name;
    std::filesystem::create_directories(folder);
    stages_ = std::make_unique<ThrottleStages>(
        ThrottleStages::Options{.bin = setting_.bin, .folder = folder, .separate = separate_});
    return stages_->Start();
  }

  void Run() {
    for (int i = 0; i < setting_.repetitions; ++i) {
      if (Wanted("completions")) Completions();
      if (Wanted("turnover")) Turnover();
      if (Wanted("busy")) {
        Busy(500, absl::Milliseconds(100), {.at_least = 97}, {.at_most = 1.05});
        Busy(50, absl::Milliseconds(10), {.at_least = 85}, {});
      }
      if (Wanted("unbound")) Unbound();
      if (Wanted("fairness")) Fairness();
      if (Wanted("several")) Several();
    }
    if (Wanted("beside_full")) BesideFull();
    if (Wanted("big") && separate_) Big();
    if (Wanted("keys")) Keys();
  }

 private:
  bool Wanted(absl::string_view stage) const { return setting_.Wanted(stage); }

  void Completions() {
    const std::string name = "completion to next delivery, m = 1,000, no work";
    const auto result = stages_->Batch({.events = events_, .concurrent = 1000});
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    figures_.Add(name, "/s", result->per_second, {.at_least = 50e3});
    CheckOut(name, result->work.out_max, 1000);
  }

  void Turnover() {
    const std::string name = "completion sent to next delivery, 10 k/s: ";
    const int64_t events = 60'000 / (setting_.quick ? 3 : 1);
    std::future<MachineLimits> machine;
    const auto result = stages_->Batch(
        {.events = events, .concurrent = 1000, .completions_per_second = 10'000, .when_due = [&] {
           machine = MeasureMachineLimits(setting_.folder, absl::Microseconds(100) * events);
         }});
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    figures_.Add(name + "p50", "ms", result->work.turnover_p50 / 1000);
    figures_.Add(name + "p99", "ms", result->work.turnover_p99 / 1000, {.at_most = 5});
    AddMachineLimits(name, machine.get(), figures_);
    // The worker begins half a second after the first arrival.
    const auto n = static_cast<double>(events);
    figures_.Add(name + "pace kept", "%", 100 * result->per_second / (n / (n / 1e4 + 0.5)),
                 {.at_least = 98});
    CheckOut(name, result->work.out_max, 1000);
  }

  void Busy(int64_t concurrent, absl::Duration work, const Bound& busy, const Bound& took) {
    const int64_t events = 20'000 / scale_;
    const std::string name = absl::StrCat("m = ", concurrent, ", work ", absl::FormatDuration(work),
                                          ", n = ", events, ": ");
    const auto result = stages_->Batch({.events = events, .concurrent = concurrent, .work = work});
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    const double ideal =
        static_cast<double>(events) / static_cast<double>(concurrent) * absl::ToDoubleSeconds(work);
    figures_.Add(name + "busy", "%", 100 * result->busy, busy);
    figures_.Add(name + "end, as part of the ideal time", "", result->took_seconds / ideal, took);
    CheckOut(name, result->work.out_max, concurrent);
  }

  void Unbound() {
    const std::string name = "gRPC, done durable, ";
    const auto without = stages_->Batch({.events = events_, .completion = v1::ON_DELIVERY});
    if (!without.ok()) return figures_.AddFailure(name + "no policy", without.status());
    const auto with = stages_->Batch(
        {.events = events_, .concurrent = 10'000'000, .completion = v1::ON_DELIVERY});
    if (!with.ok()) return figures_.AddFailure(name + "a policy of 10,000,000", with.status());
    figures_.Add(name + "no policy", "/s", without->durable_per_second);
    figures_.Add(name + "a policy of 10,000,000", "/s", with->durable_per_second);
    figures_.Add("the latter as part of the former", "%",
                 100 * with->durable_per_second / without->durable_per_second, {.at_least = 65});
  }

  void Fairness() {
    const int64_t large = 1'000'000 / scale_;
    const int64_t small = 1000 / scale_;
    const std::string name =
        absl::StrCat("wait of ", small, " beside ", large, " events, as part of a fair share's: ");
    const auto result = stages_->Fairness(large, small, 50, absl::Milliseconds(50));
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    figures_.Add(name + "mean", "", result->mean, {.at_most = 2});
    figures_.Add(name + "max", "", result->max, {.at_most = 2});
  }

  void Several() {
    const std::string name = "one-off events under policies that do not bind, ";
    const auto one = stages_->UnderPolicies(events_, 1);
    if (!one.ok()) return figures_.AddFailure(name + "one", one.status());
    const auto four = stages_->UnderPolicies(events_, 4);
    if (!four.ok()) return figures_.AddFailure(name + "four", four.status());
    figures_.Add(name + "one", "/s", *one);
    figures_.Add(name + "four", "/s", *four);
    figures_.Add("four policies, as part of one", "%", 100 * *four / *one, {.at_least = 90});
  }

  // On a platform of its own: many events still wait for the full limit in the end.
  void BesideFull() {
    const std::string name = "1,000/s under a policy that does not bind: ";
    if (const auto started = Start("beside_full"); !started.ok())
      return figures_.AddFailure(name + "p99 of lateness", started);
    const int64_t events = 30'000 / scale_;
    const int64_t others = 100'000 / scale_;
    const auto result = stages_->BesideFull(1000, events, others, 5, absl::Milliseconds(20));
    if (const auto started = Start("policies"); !started.ok())
      return figures_.AddFailure(name + "p99 of lateness", started);
    if (!result.ok()) return figures_.AddFailure(name + "p99 of lateness", result.status());
    figures_.Add(name + "p99 of lateness", "ms", result->alone.late_p99 / 1000, {.at_most = 3});
    figures_.Add(absl::StrCat(name, "beside ", others, " that need a full limit, too"), "ms",
                 result->beside.late_p99 / 1000);
    figures_.Add(name + "the latter as part of the former", "",
                 result->beside.late_p99 / result->alone.late_p99, {.at_most = 1.5});
    CheckOut(name + "p99 of lateness", result->others.out_max, 5);
    // They wait behind a limit that is full all the time.
    if (result->others.out_max < 5 || result->others.ended >= static_cast<uint64_t>(others))
      figures_.AddFailure(name + "p99 of lateness", absl::InternalError("the limit was not full"));
  }

  void Big() {
    const int64_t events = absl::GetFlag(FLAGS_big_events) / scale_;
    const std::string name = absl::StrCat("batch of ", events, ", m = 1,000: ");
    const auto result = stages_->BigBatch(events, 1000);
    if (!result.ok()) return figures_.AddFailure(name, result.status());
    figures_.Add(name + "rows of its emission", "", static_cast<double>(result->rows));
    figures_.Add(name + "rate", "/s", result->per_second);
    for (const auto& [service, bytes] : result->before)
      figures_.Add(absl::StrCat(name, service, " before"), "MiB",
                   static_cast<double>(bytes) / kMiB);
    for (const auto& [service, bytes] : result->peak)
      figures_.Add(absl::StrCat(name, service, " peak"), "MiB", static_cast<double>(bytes) / kMiB);
  }

  // Events of 100,000 keys by Zipf's law, at most 5 of a key out at once, beside the same events
  // under a policy that is the same except that its keys do not bind. Both have 500 events out at
  // once at most, each for 20 ms, so neither can be faster than 25,000/s. The difference is what
  // the limits of keys cost.
  //
  // The rate is that of the first 70 %. The keys take turns, so the small ones end first. After
  // that some 60 keys are left, which can have only 5 events out each. The largest key alone has a
  // twelfth of all events, and with 250/s it takes eight times as long as all events do without
  // these limits.
  void Keys() {
    const KeysOptions options = {.events = absl::GetFlag(FLAGS_key_events) / scale_,
                                 .keys = 100'000,
                                 .concurrent = 500,
                                 .concurrent_per_key = 5,
                                 .work = absl::Milliseconds(20)};
    const std::string name =
        absl::StrCat(options.events, " events, ", options.keys, " keys, m = ", options.concurrent,
                     ", per key ", options.concurrent_per_key, ": ");
    // Rows and memory of the other stages must not be among what is left.
    if (const auto started = Start("keys"); !started.ok())
      return figures_.AddFailure(name + "rate of the first 70 %", started);
    const auto result = stages_->Keys(options);
    if (!result.ok()) return figures_.AddFailure(name + "rate of the first 70 %", result.status());
    const KeysRun& bound = result->bound;
    const KeysRun& unbound = result->unbound;
    figures_.Add(name + "rate of the first 70 %", "/s", bound.per_second);
    figures_.Add(name + "the same, per key 10,000,000", "/s", unbound.per_second);
    figures_.Add(name + "the former as part of the latter", "%",
                 100 * bound.per_second / unbound.per_second, {.at_least = 60});
    figures_.Add(name + "most out at once", "", static_cast<double>(bound.out_max),
                 {.at_most = static_cast<double>(options.concurrent)});
    // Fewer would mean that the consumer does not know the keys.
    const auto per_key = static_cast<double>(options.concurrent_per_key);
    figures_.Add(name + "most of a key out at once", "", static_cast<double>(bound.out_max_of_key),
                 {.at_least = per_key, .at_most = per_key});
    CheckOut(name + "rate of the first 70 %", bound.out_max, options.concurrent);
    CheckOut(name + "rate of the first 70 %", bound.out_max_of_key, options.concurrent_per_key);
    CheckOut(name + "the same, per key 10,000,000", unbound.out_max, options.concurrent);
    for (const auto& [family, rows] : result->rows_left) {
      figures_.Add(absl::StrCat(name, "rows left in ", family), "", static_cast<double>(rows),
                   {.at_most = 0});
    }
    for (const auto& [service, bytes] : result->before)
      figures_.Add(absl::StrCat(name, service, " before"), "MiB",
                   static_cast<double>(bytes) / kMiB);
    for (const auto& [service, bytes] : result->after)
      figures_.Add(absl::StrCat(name, service, " after"), "MiB", static_cast<double>(bytes) / kMiB);
  }

  // A rate counts only if the limit was kept.
  void CheckOut(absl::string_view name, int64_t out_max, int64_t concurrent) {
    if (out_max > concurrent) {
      figures_.AddFailure(name,
                          absl::InternalError(absl::StrCat(out_max, " events were out at once")));
    }
  }

  const BenchSetting& setting_;
  const int64_t scale_;
  const int64_t events_;
  const bool separate_;
  std::unique_ptr<ThrottleStages> stages_;
  Figures& figures_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  ThrottleBench bench(setting, &figures);
  RETURN_IF_ERROR(bench.Start("policies"));
  bench.Run();
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(argc, argv,
                                     {.name = "throttle",
                                      .usage = "measures throttled delivery on this machine",
                                      .repetitions = 3,
                                      .run = escapement::bench::Run});
}
