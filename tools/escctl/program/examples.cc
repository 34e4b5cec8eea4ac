#include <map>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tools/escctl/program/program.h"

namespace escapement::escctl {
namespace {

using Table = std::map<std::string, std::vector<std::string>, std::less<>>;

const Table& Examples() {
  static const auto* const table = new Table{
      {"",
       {"escctl schedule create hello --every 10s --http http://127.0.0.1:8080/hello",
        "escctl apply -f schedules.yaml --dry-run", "escctl schedule list -o yaml"}},
      {"apply",
       {"escctl apply -f schedules.yaml", "escctl apply -f schedules.yaml --dry-run",
        "escctl apply -f schedules.yaml --prune -l team=a"}},
      {"schedule",
       {"escctl schedule create hello --every 10s --http http://127.0.0.1:8080/hello",
        "escctl schedule runs hello"}},
      {"schedule create",
       {"escctl schedule create hello --every 10s --http http://127.0.0.1:8080/hello",
        "escctl schedule create nightly --cron '30 2 * * *' --time-zone Europe/Berlin --grpc "
        "127.0.0.1:50051",
        "escctl schedule create batch --cron @daily -n 1000 --policy gentle --http "
        "http://127.0.0.1:8080/batch"}},
      {"schedule update",
       {"escctl schedule update nightly --cron '0 4 * * *'",
        "escctl schedule update nightly --policy ''"}},
      {"schedule get", {"escctl schedule get nightly", "escctl schedule get nightly -o yaml"}},
      {"schedule list",
       {"escctl schedule list", "escctl schedule list --watch",
        "escctl schedule list --filter 'state = PAUSED AND name = \"nightly-*\"'"}},
      {"schedule versions",
       {"escctl schedule versions nightly", "escctl schedule versions nightly -o yaml"}},
      {"schedule delete", {"escctl schedule delete nightly"}},
      {"schedule pause", {"escctl schedule pause nightly --reason 'the target is being moved'"}},
      {"schedule resume", {"escctl schedule resume nightly"}},
      {"schedule trigger",
       {"escctl schedule trigger nightly", "escctl schedule trigger nightly -n 5"}},
      {"schedule preview",
       {"escctl schedule preview --cron '30 2 L * *' --time-zone Europe/Berlin",
        "escctl schedule preview --every 90s --count 3",
        "escctl schedule preview --cron '0 9 L * *' --calendar germany --on-excluded previous"}},
      {"schedule backfill",
       {"escctl schedule backfill nightly --from 2026-11-01T00:00:00Z --to now"}},
      {"schedule account",
       {"escctl schedule account nightly --from 2026-11-25T00:00:00Z --to now",
        "escctl schedule account nightly --filter 'result = PENDING'"}},
      {"account", {"escctl account --all", "escctl account --all --hours 168"}},
      {"schedule runs",
       {"escctl schedule runs nightly --limit 3",
        "escctl schedule runs nightly --filter 'state = SKIPPED'",
        "escctl schedule runs nightly --filter 'state = COMPLETED' --wait 60s --require-success"}},
      {"forecast",
       {"escctl forecast", "escctl forecast --for 72h --by label=team",
        "escctl forecast --near 2026-12-01T02:00:00Z --filter 'policy = gentle'"}},
      {"event",
       {"escctl event create --due +90s --http http://127.0.0.1:8080/hello",
        "escctl event get reminder-7"}},
      {"event create",
       {"escctl event create --due +90s --http http://127.0.0.1:8080/hello",
        "escctl event create reminder-7 --due 2026-12-24T18:00:00Z --grpc 127.0.0.1:50051",
        "escctl event create --limit customers=acme --limit licences:3 --http "
        "http://127.0.0.1:8080/hello"}},
      {"event upsert",
       {"escctl event upsert reminder-7 --due 2026-12-25T18:00:00Z --grpc 127.0.0.1:50051",
        "escctl event upsert reminder-7 --replace-ended --http http://127.0.0.1:8080/hello"}},
      {"event move", {"escctl event move reminder-7 --due 2026-12-25T18:00:00Z"}},
      {"event get", {"escctl event get reminder-7"}},
      {"event list",
       {"escctl event list --limit 20",
        "escctl event list --filter 'outcome = FAILED' --order-by 'complete_time desc'"}},
      {"event cancel",
       {"escctl event cancel reminder-7", "escctl event cancel reminder-7 reminder-8 reminder-9",
        "escctl event cancel --filter 'name = \"reminder-*\"'"}},
      {"event ingest",
       {"escctl event ingest -f events.jsonl --http http://127.0.0.1:8080/hello",
        "escctl event ingest -f - --grpc 127.0.0.1:50051",
        "escctl event ingest -f events.jsonl --policy gentle --http http://127.0.0.1:8080/hello"}},
      {"run",
       {"escctl run get nightly/runs/20261124T023000-0-UTC",
        "escctl run cancel nightly/runs/20261124T023000-0-UTC"}},
      {"run get",
       {"escctl run get nightly/runs/20261124T023000-0-UTC",
        "escctl run get nightly/runs/20261124T023000-0-UTC --watch"}},
      {"run cancel", {"escctl run cancel nightly/runs/20261124T023000-0-UTC"}},
      {"run events",
       {"escctl run events nightly/runs/20261124T023000-0-UTC --filter outcome=FAILED"}},
      {"run redrive",
       {"escctl run redrive nightly/runs/20261124T023000-0-UTC",
        "escctl run redrive nightly/runs/20261124T023000-0-UTC --max-per-second 50"}},
      {"deadletter",
       {"escctl deadletter list --filter 'schedule = nightly'",
        "escctl deadletter redrive --filter 'reason : \"503\"' --max-per-second 100"}},
      {"deadletter list",
       {"escctl deadletter list --limit 20",
        "escctl deadletter list --filter 'schedule = nightly AND reason : \"503\"'"}},
      {"deadletter groups",
       {"escctl deadletter groups", "escctl deadletter groups --hours 168 -o yaml",
        "escctl deadletter groups --filter 'schedule = nightly'"}},
      {"deadletter get", {"escctl deadletter get 00064468d3a2f400-reminder-7 -o yaml"}},
      {"deadletter redrive",
       {"escctl deadletter redrive 00064468d3a2f400-reminder-7",
        "escctl deadletter redrive --filter 'schedule = nightly' --max-per-second 100",
        "escctl deadletter redrive --all"}},
      {"deadletter purge",
       {"escctl deadletter purge --filter 'create_time < \"2026-11-01T00:00:00Z\"'",
        "escctl deadletter purge --filter 'schedule = nightly' --force"}},
      {"operation", {"escctl operation list", "escctl operation get OPERATION --watch"}},
      {"operation list",
       {"escctl operation list", "escctl operation list --filter 'state = RUNNING' --watch"}},
      {"operation get",
       {"escctl operation get OPERATION", "escctl operation get OPERATION --watch"}},
      {"operation cancel", {"escctl operation cancel OPERATION"}},
      {"calendar",
       {"escctl calendar create germany --ics holidays.ics --rule '* * SAT,SUN'",
        "escctl calendar get germany"}},
      {"calendar create",
       {"escctl calendar create germany --ics holidays.ics --rule '* * SAT,SUN'",
        "escctl calendar create shop --add germany --date 2026-12-24 --except-date 2026-12-20"}},
      {"calendar update",
       {"escctl calendar update germany --ics holidays.ics --validate-only",
        "escctl calendar update shop --date 2026-12-24 --date 2027-12-24"}},
      {"calendar get", {"escctl calendar get germany", "escctl calendar get germany -o yaml"}},
      {"calendar list", {"escctl calendar list", "escctl calendar list --watch"}},
      {"calendar delete", {"escctl calendar delete germany"}},
      {"subscription",
       {"escctl subscription create failures --slack @webhook.url",
        "escctl subscription get failures"}},
      {"subscription create",
       {"escctl subscription create failures --kind failed --kind missed --slack @webhook.url",
        "escctl subscription create billing --label team=billing --late-by 10m --email "
        "oncall@example.com --from escapement@example.com --smtp smtp://mail.example.com:25",
        "escctl subscription create nightly --schedule nightly --http "
        "http://127.0.0.1:8080/alarm"}},
      {"subscription update",
       {"escctl subscription update billing --late-by 30m",
        "escctl subscription update failures --filter '' --kind ''"}},
      {"subscription get",
       {"escctl subscription get failures", "escctl subscription get failures -o json"}},
      {"subscription list", {"escctl subscription list", "escctl subscription list --watch"}},
      {"subscription delete", {"escctl subscription delete failures"}},
      {"subscription test", {"escctl subscription test failures"}},
      {"policy", {"escctl policy create gentle --max-concurrent 5", "escctl policy usage gentle"}},
      {"policy create",
       {"escctl policy create gentle --max-concurrent 5",
        "escctl policy create customers --max-concurrent 200 --max-concurrent-per-key 5",
        "escctl policy create ordered --max-concurrent-per-key 1 --retries KEEP_TOKEN"}},
      {"policy update",
       {"escctl policy update gentle --max-concurrent 10",
        "escctl policy update gentle --max-per-second 0.5 --burst 10"}},
      {"policy get", {"escctl policy get gentle", "escctl policy get gentle -o yaml"}},
      {"policy list",
       {"escctl policy list", "escctl policy list --watch",
        "escctl policy list --filter 'max_concurrent < 10'"}},
      {"policy delete", {"escctl policy delete gentle"}},
      {"policy pause", {"escctl policy pause gentle --reason 'the database is full'"}},
      {"policy resume", {"escctl policy resume gentle"}},
      {"policy override",
       {"escctl policy override gentle --max-concurrent 2 --reason 'the database is slow' --for "
        "10m",
        "escctl policy override customers --key acme --max-concurrent 0 --reason abuse --until "
        "+1h"}},
      {"policy clear-override",
       {"escctl policy clear-override gentle",
        "escctl policy clear-override customers --key acme"}},
      {"policy keys", {"escctl policy keys customers", "escctl policy keys customers --prefix ac"}},
      {"policy usage",
       {"escctl policy usage gentle", "escctl policy usage gentle --limit 1000",
        "escctl policy usage customers --keys"}},
      {"statistics",
       {"escctl statistics", "escctl statistics --hours 24 --step 10m",
        "escctl statistics --policy gentle"}},
      {"target", {"escctl target list", "escctl target get 0f3a6c1b9d2e4f5a8b7c6d5e4f3a2b1c"}},
      {"target list", {"escctl target list", "escctl target list --watch"}},
      {"target get",
       {"escctl target get 0f3a6c1b9d2e4f5a8b7c6d5e4f3a2b1c",
        "escctl target get https://billing.internal:8443/jobs -o yaml"}},
      {"target reset", {"escctl target reset https://billing.internal:8443/jobs"}},
      {"why",
       {"escctl why nightly", "escctl why reminder-7",
        "escctl why nightly/runs/20261130T030000-0-UTC/events/12"}},
      {"token", {"escctl token release TOKEN", "escctl token complete TOKEN --outcome FAILED"}},
      {"token complete",
       {"escctl token complete TOKEN",
        "escctl token complete TOKEN --outcome FAILED --final --output 'disk full'"}},
      {"token release", {"escctl token release TOKEN", "escctl token release -"}},
      {"token extend", {"escctl token extend TOKEN --hold 10m"}},
      {"tenant",
       {"escctl tenant create team-a --max-schedules 1000", "escctl tenant list",
        "escctl tenant update team-a --state SUSPENDED"}},
      {"tenant create",
       {"escctl tenant create team-a --display-name 'Team A'",
        "escctl tenant create team-a --max-schedules 1000 --max-events-per-second 50"}},
      {"tenant get", {"escctl tenant get team-a", "escctl tenant get team-a -o yaml"}},
      {"tenant list", {"escctl tenant list"}},
      {"tenant update",
       {"escctl tenant update team-a --state SUSPENDED",
        "escctl tenant update team-a --display-name 'Team A' --max-schedules 0"}},
      {"tenant delete", {"escctl tenant delete team-a"}},
      {"cell", {"escctl cell create 1 --store 10.0.0.7:7400", "escctl cell status"}},
      {"cell create",
       {"escctl cell create 1 --store 10.0.0.7:7400",
        "escctl cell create 2 --store store-2a:7400,store-2b:7400 --weight 2"}},
      {"cell get", {"escctl cell get 1"}},
      {"cell list", {"escctl cell list"}},
      {"cell update", {"escctl cell update 1 --weight 2"}},
      {"cell drain", {"escctl cell drain 1"}},
      {"cell open", {"escctl cell open 1"}},
      {"cell status", {"escctl cell status", "escctl cell status 1 -o yaml"}},
      {"quota", {"escctl quota get team-a", "escctl quota set team-a --max-schedules 1000"}},
      {"quota get", {"escctl quota get team-a"}},
      {"quota set",
       {"escctl quota set team-a --max-schedules 1000 --max-requests-per-second 100",
        "escctl quota set team-a --max-schedules 0"}},
      {"key",
       {"escctl key create --tenant team-a --role EDITOR --key-file team-a.key",
        "escctl key list --tenant team-a"}},
      {"key create",
       {"escctl key create --tenant team-a --role EDITOR --key-file team-a.key",
        "escctl key create --role VIEWER --expires-in 30d --display-name dashboard",
        "escctl key create --all-tenants --role ADMIN --key-file ops.key --context prod"}},
      {"key get", {"escctl key get 0123456789abcdef --tenant team-a"}},
      {"key list", {"escctl key list --tenant team-a", "escctl key list --all-tenants"}},
      {"key revoke", {"escctl key revoke 0123456789abcdef --tenant team-a"}},
      {"audit", {"escctl audit list --tenant team-a --limit 20"}},
      {"audit list",
       {"escctl audit list --tenant team-a --limit 20", "escctl audit list --filter 'result != OK'",
        "escctl audit list --all-tenants"}},
      {"store", {"escctl store status", "escctl store clock"}},
      {"store status", {"escctl store status", "escctl store status --server store-b:7400"}},
      {"store handover", {"escctl store handover"}},
      {"store snapshot", {"escctl store snapshot export backup.snapshot --server store:7400"}},
      {"store snapshot export",
       {"escctl store snapshot export backup.snapshot --server store:7400",
        "escctl store snapshot export /backups --keep 7 --server store:7400",
        "escctl store snapshot export s3://my-bucket/escapement --keep 7 --s3-region "
        "eu-central-1"}},
      {"store snapshot import",
       {"escctl store snapshot import backup.snapshot --data-dir /var/lib/escapement",
        "escctl store snapshot import s3://my-bucket/escapement --data-dir /var/lib/escapement "
        "--s3-region eu-central-1"}},
      {"store clock", {"escctl store clock", "escctl store clock --confirm"}},
      {"admin",
       {"escctl admin bootstrap --key-file admin.key",
        "escctl admin secret-key --key-file secret.keys"}},
      {"admin bootstrap", {"escctl admin bootstrap --key-file admin.key"}},
      {"admin secret-key",
       {"escctl admin secret-key --key-file secret.keys", "escctl admin secret-key"}},
      {"config",
       {"escctl config set-context prod --server master.example:7410",
        "escctl config use-context prod"}},
      {"config set-context",
       {"escctl config set-context prod --server master.example:7410",
        "escctl config set-context prod --server master.example:7410 --tls-ca ca.pem --key-file "
        "api.key"}},
      {"config use-context", {"escctl config use-context prod"}},
      {"config get-contexts", {"escctl config get-contexts", "escctl config get-contexts -o json"}},
      {"config current-context", {"escctl config current-context"}},
      {"config delete-context", {"escctl config delete-context prod"}},
      {"doctor",
       {"escctl doctor",
        "escctl doctor --metrics-url http://127.0.0.1:7401 --metrics-url http://127.0.0.1:7411",
        "escctl doctor --failover 3"}},
      {"top", {"escctl top --metrics-url http://127.0.0.1:7411", "escctl top --once"}},
      {"completion",
       {"source <(escctl completion bash)", "escctl completion zsh > ~/.zsh/completions/_escctl",
        "escctl completion fish > ~/.config/fish/completions/escctl.fish"}},
      {"man", {"escctl man | man -l -", "escctl man > ~/.local/share/man/man1/escctl.1"}},
  };
  return *table;
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text;
    if (mode != CLI::AppFormatMode::Sub) {
      for (const std::string& example : ExamplesOf(PathOf(*app)))
        absl::StrAppend(&text, text.empty() ? "Examples:\n  " : "  ", example, "\n");
      if (!text.empty()) absl::StrAppend(&text, "\n");
    }
    return text + CLI::Formatter::make_help(app, std::move(name), mode);
  }

  std::string make_description(const CLI::App* app) const override {
    const std::string text = app->get_description();
    return text.empty() ? "" : text + "\n";
  }

  // The list of a group has only the first line of each description.
  std::string make_subcommand(const CLI::App* command) const override {
    std::stringstream out;
    const std::string text = command->get_description();
    CLI::detail::format_help(out, command->get_display_name(true), text.substr(0, text.find('\n')),
                             column_width_);
    return out.str();
  }
};

}  // namespace

std::vector<std::string> ExamplesOf(absl::string_view path) {
  const auto found = Examples().find(path);
  return found == Examples().end() ? std::vector<std::string>() : found->second;
}

std::shared_ptr<CLI::FormatterBase> NewHelpFormatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace escapement::escctl
