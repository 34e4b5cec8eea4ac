// Bounds of the master, each with what it causes. Those of user input are part of the public
// contract (proto/escapement/v1); none is configuration.

#ifndef SERVICES_MASTER_BASE_LIMITS_H_
#define SERVICES_MASTER_BASE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace escapement::master {

// User input: larger is refused with INVALID_ARGUMENT.
inline constexpr size_t kResourceIdBytesMax = 63;
inline constexpr size_t kRequestIdBytesMax = 64;
inline constexpr size_t kDisplayNameCharsMax = 200;
inline constexpr size_t kPauseReasonCharsMax = 200;
inline constexpr size_t kLabelsMax = 64;
inline constexpr size_t kLabelBytesMax = 63;
inline constexpr size_t kPayloadBytesMax = 262'144;
// A message of SQS has at most 262,144 bytes, its attributes included: the event's facts, which
// have at most 2,048. Handlers may send more or less (--sqs_batch_bytes_max), but a master does not
// know their flags.
inline constexpr size_t kSqsBodyBytesMax = kPayloadBytesMax - 2'048;
inline constexpr size_t kContentTypeBytesMax = 255;
inline constexpr size_t kUriBytesMax = 2048;
inline constexpr size_t kHeadersMax = 32;
inline constexpr size_t kHeaderNameBytesMax = 128;
inline constexpr size_t kHeaderValueBytesMax = 4096;
inline constexpr int kSigningSecretsMax = 4;
inline constexpr size_t kPemBytesMax = 65'536;
inline constexpr size_t kCredentialsBytesMax = 8192;
inline constexpr size_t kPasswordBytesMax = 1024;
inline constexpr size_t kBrokersBytesMax = 1024;
inline constexpr size_t kKafkaKeyBytesMax = 256;
inline constexpr size_t kSlackTextCharsMax = 4000;
inline constexpr size_t kMailAddressBytesMax = 254;
inline constexpr int kMailReceiversMax = 50;
inline constexpr size_t kMailSubjectCharsMax = 500;
inline constexpr size_t kMailTextCharsMax = 65'536;
inline constexpr int64_t kEventCountMax = 100'000'000;
inline constexpr int32_t kPriorityMax = 9;
inline constexpr int32_t kPriorityDefault = 5;
inline constexpr int32_t kMaxAttemptsMax = 100;
// With the other defaults the retries of an event last from 41 minutes to one and a half hours: a
// consumer may be absent for so long.
inline constexpr int32_t kMaxAttemptsDefault = 25;
inline constexpr double kMultiplierMin = 1;
inline constexpr double kMultiplierMax = 10;
inline constexpr double kMultiplierDefault = 2;
inline constexpr absl::Duration kDeliveryTimeoutMin = absl::Milliseconds(10);
inline constexpr absl::Duration kDeliveryTimeoutMax = absl::Hours(1);
inline constexpr absl::Duration kDeliveryTimeoutDefault = absl::Seconds(10);
inline constexpr absl::Duration kMaxLatenessMin = absl::Milliseconds(1);
inline constexpr absl::Duration kMaxLatenessMax = absl::Hours(24 * 366);
inline constexpr absl::Duration kMinBackoffMin = absl::Milliseconds(1);
inline constexpr absl::Duration kMinBackoffDefault = absl::Seconds(1);
inline constexpr absl::Duration kMaxBackoffMax = absl::Hours(24);
inline constexpr absl::Duration kMaxBackoffDefault = absl::Seconds(300);
inline constexpr absl::Duration kMaxAgeMin = absl::Milliseconds(1);
inline constexpr absl::Duration kMaxAgeMax = absl::Hours(24 * 30);
inline constexpr absl::Duration kMaxAgeDefault = absl::Hours(24);
inline constexpr absl::Duration kWindowMin = absl::Seconds(1);
inline constexpr absl::Duration kWindowMax = absl::Hours(24 * 366);
// Rows that one page of a filtered list examines: then the page ends, with a token.
inline constexpr size_t kListExaminedMax = 10'000;
// Bytes of rows that one page of ListEvents reads: then the page ends, with a token.
inline constexpr size_t kListBytesMax = 32 << 20;
// Outcomes that ListEvents sorts together by their end. A page that continues among them reads them
// again, at most kListExaminedMax, because there may be more by then.
inline constexpr size_t kListSortedMax = 5'000;
// Handlers of one target that are read to say whether it is down.
inline constexpr size_t kTargetHandlersMax = 1'000;
// Entries of the audit of one microsecond that are read for who began a pause: beyond it nobody may
// be named.
inline constexpr size_t kPauseAuditRowsMax = 100;
// Claims of one shard that ListEvents reads: beyond it events that are sent may show as PENDING.
inline constexpr size_t kListClaimRowsMax = 50'000;
// Bounds on when a schedule fires.
inline constexpr absl::Duration kIntervalMin = absl::Seconds(1);
inline constexpr absl::Duration kIntervalMax = absl::Hours(24 * 3660);
inline constexpr int kTimesMax = 1000;
inline constexpr int64_t kMaxRunsMax = 100'000;
inline constexpr int kExclusionsMax = 32;
inline constexpr absl::Duration kJitterMax = absl::Hours(24);
inline constexpr absl::Duration kMisfireThresholdMin = absl::Seconds(1);
inline constexpr absl::Duration kMisfireThresholdMax = absl::Hours(24 * 30);
inline constexpr absl::Duration kMisfireMaxAgeMin = absl::Seconds(1);
inline constexpr absl::Duration kMisfireMaxAgeMax = absl::Hours(24 * 366);
inline constexpr int32_t kMaxCatchUpMax = 1000;
// start_time, end_time and times: from 1970 to the end of 2199, where occurrences are.
inline constexpr int64_t kTimingMicrosMin = 0;
inline constexpr int64_t kTimingMicrosMax = int64_t{7'258'118'400} * 1'000'000;
// Due times are at least the year 1 and at most the end of 2199, as far as occurrences reach.
inline constexpr int64_t kDueTimeMicrosMin = int64_t{-62'135'596'800} * 1'000'000;
inline constexpr int64_t kDueTimeMicrosMax = int64_t{7'258'118'400} * 1'000'000 - 1;
// Event.debounce: both delays.
inline constexpr absl::Duration kDebounceMin = absl::Milliseconds(1);
inline constexpr absl::Duration kDebounceMax = absl::Hours(24 * 366);
// Records of one Ingest batch that replace or cancel events one by one, because these are due soon:
// at once.
inline constexpr int kIngestAloneMax = 32;

// Bounds of throttling policies.
inline constexpr int64_t kMaxConcurrentMax = 10'000'000;
inline constexpr size_t kPolicyKeyBytesMax = 128;
inline constexpr int kLimitsMax = 4;  // that an event has; a grant counts each of them
inline constexpr int64_t kLimitWeightMax = 1'000'000;
// Rows of a policy shard that DeletePolicy reads; with more it refuses.
inline constexpr size_t kCheckedRowsMax = 1'000'000;
inline constexpr double kMaxPerSecondMin = 1e-6;  // one event in 12 days; 0 is no limit
inline constexpr double kMaxPerSecondMax = 1'000'000;
inline constexpr int64_t kBurstMax = 1'000'000;
inline constexpr int64_t kBurstDefault = 1;
inline constexpr absl::Duration kHoldTimeoutMin = absl::Seconds(1);
inline constexpr absl::Duration kHoldTimeoutMax = absl::Hours(24 * 30);
inline constexpr absl::Duration kHoldTimeoutDefault = absl::Seconds(3600);

// Overrides of a policy and of its keys.
inline constexpr size_t kOverrideReasonCharsMax = 200;
inline constexpr absl::Duration kOverrideMax = absl::Hours(24 * 30);
// In force at once, of one policy: all are in its record.
inline constexpr int kOverridesMax = 100;

// Occurrences of a pause that are compared when a calendar's change may have moved some: with more,
// those of the pause are skipped, as in an update of the times.
inline constexpr size_t kPauseComparedMax = 10'000;
// Bounds of calendars. All calendars of a tenant are read together when one is changed.
inline constexpr size_t kCalendarsMax = 200;
inline constexpr size_t kCalendarDatesMax = 1000;  // bounds dates, and except_dates
inline constexpr int kCalendarRulesMax = 32;
inline constexpr size_t kCalendarRuleBytesMax = 256;
inline constexpr int kCalendarOthersMax = 8;
// Calendars of which each contains the next one.
inline constexpr int kCalendarDepthMax = 4;
// Bytes of the days of a calendar with those that it contains: every version of a schedule has
// them.
inline constexpr size_t kCalendarDaysBytesMax = 64 << 10;
// Rules, and calendars, of all these together: each search looks at each of them.
inline constexpr int kCalendarRulesAllMax = 256;
inline constexpr int kCalendarNodesMax = 64;
// Bytes of the days times the schedule's places in the children index, since each child repeats
// them: a schedule with more is refused, because one change writes all of them. A change of the
// calendar may make it as much as the second bound; beyond it the schedule keeps its former days.
inline constexpr size_t kCalendarChildrenBytesMax = 4 << 20;
inline constexpr size_t kRetimedChildrenBytesMax = 16 << 20;
// An iCalendar file: its size, its events (and its rules, as many again), and how far ahead the
// days of a recurrence reach.
inline constexpr size_t kIcsBytesMax = 1 << 20;
inline constexpr int kIcsEventsMax = 10'000;
inline constexpr int kIcsYears = 10;
// The work for a file, which the master does at once: days that are tried for the recurrences, days
// that the events cover, and exclusions by RECURRENCE-ID. Beyond it the file is refused. A rule
// without COUNT takes about 4,400 days. The whole work takes about 10 ms.
inline constexpr int kIcsDaysTriedMax = 1'000'000;
// Calendar.next_days, and how far ahead they are looked for.
inline constexpr int kNextDaysMax = 50;
inline constexpr int64_t kNextDaysRange = 10 * 366;
// UpdateCalendarResponse.moves: how far they reach, schedules that are compared, moves of each and
// of all.
inline constexpr int64_t kMovesDays = 366;
inline constexpr size_t kMovesSchedulesMax = 1000;
inline constexpr size_t kMovesOfScheduleMax = 100;
inline constexpr size_t kMovesMax = 1000;
// Occurrences of one day that are compared: a schedule that fires more often has further moves.
inline constexpr size_t kMovesOfDayMax = 1500;
// Schedules that are compared together, or changed by one step of a retiming. Their definitions are
// in memory at the same time.
inline constexpr size_t kCalendarSchedulesAtOnce = 50;
// Schedules of a step that are changed together. Each holds at most kRetimedChildrenBytesMax of
// children in memory, so together they hold at most 128 MiB.
inline constexpr size_t kRetimedAtOnce = 8;
// A master leaves the schedules of a changed calendar to another one until that has made no
// progress for this long.
inline constexpr absl::Duration kRetimingPatience = absl::Seconds(5);
// Schedules that could not be changed are tried again after this long, by one master.
inline constexpr absl::Duration kRetimingRetryDelay = absl::Minutes(1);
// Failed schedules of one calendar that a retry visits alone. If more fail, the retry visits all
// schedules from the next failed one on.
inline constexpr size_t kRetimingFailedMax = kCalendarSchedulesAtOnce;

// Bounds of tenants.
inline constexpr double kTenantRateMax = 1e9;  // bounds both rates of Quotas
inline constexpr absl::Duration kRetentionMin = absl::Hours(24);
inline constexpr absl::Duration kRetentionMax = absl::Hours(24 * 366);
// A tenant can be deleted this long after its suspension: every master knows of it by then.
inline constexpr absl::Duration kTenantSuspendedMin = absl::Seconds(10);
// Keys of a tenant that have not been swept; further ones are refused.
inline constexpr uint32_t kKeysOfTenantMax = 1000;
// Rows that one count of a tenant's schedules, policies or events reads.
inline constexpr int64_t kCountRowsMax = 1'000'000;
// Audit entries are kept this long; revoked and expired keys, too.
inline constexpr absl::Duration kAuditRetention = absl::Hours(24 * 90);

inline constexpr int32_t kPageSizeMax = 1000;  // larger is cut to it
inline constexpr int32_t kPageSizeDefault = 100;
// Encoded bytes of a page's items. A page that would exceed them ends early, with a token.
inline constexpr size_t kPageBytesMax = 1 << 20;

inline constexpr int kBatchCreateEventsMax = 1000;
inline constexpr int kBatchSchedulesMax = 1000;
inline constexpr int kIngestEventsMax = 5000;
// Bytes of the requests of one batch of events or schedules. The same bound holds for the payloads
// and overrides of one Ingest batch, and for the deliveries that it stores. Keeps one commit well
// below the store's bound. The wire takes messages of twice the size, so a batch that is too large
// is refused with its field.
inline constexpr size_t kBatchBytesMax = 8 << 20;
// Bytes of the answer of BatchCreateEvents, which repeats each event's target. Ordinary clients
// refuse more than 4 MiB.
inline constexpr size_t kAnswerBytesMax = (4 << 20) - (64 << 10);
// Bytes of the results of a batch of schedules that are shown in full. The further ones are short,
// with at most some 800 bytes each, so that all fit into kAnswerBytesMax.
inline constexpr size_t kFullResultsBytesMax = 3 << 20;
// Changes of a batch that are decided in one turn of the executor: other calls wait for so long.
// Two times as many are under way, so that the store and the master both work. Bounds the memory
// that their snapshots take.
inline constexpr size_t kJointChangesMax = 100;
// Bytes of the groups of several changes that are one commit.
inline constexpr size_t kJointCommitBytesMax = 8 << 20;
// Batches of one stream whose commit is under way; then the stream is not read further.
inline constexpr int kIngestOutstandingMax = 8;
// Payload bytes of all batches whose commit is under way, over all streams: beyond it batches are
// refused with RESOURCE_EXHAUSTED, so that a slow store cannot fill the memory.
inline constexpr int64_t kIngestBytesUnderWayMax = int64_t{512} << 20;
inline constexpr absl::Duration kIngestBusyDelay = absl::Milliseconds(200);
// Hashes of delivery records known to be stored; when full, all are forgotten and written again.
inline constexpr size_t kInternedKnownMax = 10'000;

// Tries of a change whose conditions failed (a race with an emitter, a handler or another change)
// before ABORTED.
inline constexpr int kChangeAttemptsMax = 20;
// Rows that one change may write for occurrences: what an emitter that is hours behind still owes
// can exceed it; then the change is refused with RESOURCE_EXHAUSTED until the emitter has caught
// up.
inline constexpr size_t kChangeRowsMax = 20'000;
// Occurrences that are compared when two versions differ over a window.
inline constexpr size_t kChangeOccurrencesMax = 20'000;
// Occurrences that one summary of skipped ones counts: beyond it it says "at least".
inline constexpr size_t kSummaryCountMax = 100'000;
// Occurrences that one backfill call may cover; more is refused.
inline constexpr int32_t kBackfillOccurrencesMax = 1000;
inline constexpr int32_t kBackfillOccurrencesDefault = 100;
// Occurrences after those that a backfill looks at, among which the rest of a summary finds one
// that has not fired: without one it stays whole, and its first occurrence does not fire.
inline constexpr size_t kBackfillCarriersMax = 100;
// Runs of a schedule that CancelRun has cancelled and that have not ended.
inline constexpr int kCancelledRunsMax = 32;
// Parked rows that one commit of a resume, a delete or a CancelRun takes.
inline constexpr uint32_t kParkedChunkMax = 10'000;
// Rows that such a commit may write to end them all: beyond it, it takes fewer.
inline constexpr size_t kParkedRowsMax = 20'000;
// Launch records, of all schedules of a partition, that a resume reads; later ones it does not
// judge.
inline constexpr size_t kLaunchRowsMax = 100'000;
// Tries of a cancel against claims of the same shard before ABORTED.
inline constexpr int kCancelAttemptsMax = 50;

// Reads of one ListRuns / ListRunEvents call: then the page ends early, with a token.
inline constexpr int kRunScansMax = 128;
// Rows of a shard's retry lane or claims that a lookup of one event reads.
inline constexpr uint32_t kLookupRowsMax = 50'000;
// Former versions of a schedule that are read to find out where its rows may be, and their bytes:
// rows that only older versions have placed are not found. Versions and bytes of one read.
inline constexpr size_t kPlaceVersionsMax = 1000;
inline constexpr size_t kPlaceBytesMax = 8 << 20;
inline constexpr uint32_t kPlaceVersionsAtOnce = 16;
inline constexpr uint32_t kPlaceBytesAtOnce = 1 << 20;
// Different jitters of these versions, and policies with priorities, at whose places rows are
// looked for: each costs reads.
inline constexpr size_t kPlaceJittersMax = 16;
inline constexpr size_t kPlaceGroupsMax = 32;
// Timetables of these versions in which a list of runs looks for occurrences.
inline constexpr size_t kListedTimetablesMax = 100;
// Keys that a backfill or an account reads at once for the rows of its occurrences; those of one
// more occurrence may come to them.
inline constexpr size_t kBackfillKeysAtOnce = 20'000;
// Summaries of former versions that one backfill takes apart.
inline constexpr size_t kFormerSummariesMax = 32;

// Longest range of one ListOccurrences. How far back it reaches: definitions are kept so long after
// they were replaced (kVersionKeptFor).
inline constexpr absl::Duration kAccountRangeMax = absl::Hours(24 * 31);
// Occurrences that one page of ListOccurrences examines, and schedules: then the page ends, with a
// token. Together with the next bound they limit a page's memory and time.
inline constexpr size_t kAccountOccurrencesMax = 1000;
inline constexpr size_t kAccountSchedulesMax = 1000;
// Schedules that are read together.
inline constexpr size_t kAccountSchedulesAtOnce = 32;
// Versions of one schedule in one range, which are in memory together; with more the range is
// refused. Versions of one read: each may hold a large payload.
inline constexpr size_t kAccountVersionsMax = 2000;
inline constexpr uint32_t kAccountVersionsAtOnce = 16;
// Done records of one run that are read to find out how late its last event was sent. Beyond it the
// run counts as late until its end.
inline constexpr size_t kAccountDoneRowsMax = 10'000;
// Done records of one schedule, shard and day that are searched for the summary of a downtime, and
// how far back the search goes for an occurrence that was due a moment ago.
inline constexpr uint32_t kAccountSummaryRowsMax = 1000;
inline constexpr absl::Duration kAccountSummaryNear = absl::Hours(24);
// Done records that are read to find out whether the outcomes of a day are still kept.
inline constexpr uint32_t kAccountKeptRowsMax = 1000;

// How far back the masters' own accounts go, and schedules that one step samples: together they
// bound what a step reads. It also bounds how many accounts one schedule with a lost occurrence may
// miss: with 100,000 schedules each is sampled once in two hours.
inline constexpr absl::Duration kAccountLoopRange = absl::Minutes(10);
inline constexpr uint32_t kAccountLoopSchedules = 8;
// A step samples no further schedule once it has taken this part of the time between two steps.
inline constexpr int kAccountLoopShare = 100;
// From the end of one step to the begin of the next.
inline constexpr absl::Duration kAccountLoopEvery = absl::Seconds(5);

// Subscriptions of one tenant; further ones are refused.
inline constexpr int64_t kSubscriptionsMax = 100;
inline constexpr absl::Duration kLateByMin = absl::Seconds(1);
inline constexpr absl::Duration kLateByMax = absl::Hours(24 * 30);
inline constexpr absl::Duration kLateByDefault = absl::Minutes(5);
// Subscriptions that one read takes: each may have some 200 KiB of certificates.
inline constexpr uint32_t kSubscriptionsAtOnce = 16;
// Between two rounds of checks of all subscriptions, and between two checks of one subscription.
inline constexpr absl::Duration kNotifyEvery = absl::Seconds(10);
// Each check is followed by a pause so many times as long: so checks take less than a twentieth of
// a core. The pause has a bound, because a check may have waited for the store.
inline constexpr int kNotifyShare = 20;
inline constexpr absl::Duration kNotifyPauseMax = absl::Minutes(1);
// A check covers at most so much time. After a longer outage the next ones catch up.
inline constexpr absl::Duration kCheckedRangeMax = absl::Minutes(10);
// A problem is reported again no sooner than this.
inline constexpr absl::Duration kNotifyAgainAfter = absl::Hours(1);
// Runs that have not ended, and problems, that one subscription follows: they are in one record of
// some 2 MiB. Further ones are not reported.
inline constexpr size_t kOpenRunsMax = 5000;
inline constexpr size_t kOpenRunsOfSchedule = 10;
inline constexpr size_t kProblemsMax = 1000;
// A problem of which nothing new has been found for so long is forgotten.
inline constexpr absl::Duration kProblemKeptFor = absl::Hours(24 * 7);
inline constexpr int kProblemsShown = 100;  // by GetSubscription
// Problems that one message has, and as many ends of problems: it says how many more there are.
inline constexpr size_t kMessageProblemsMax = 50;
inline constexpr size_t kProblemDetailBytesMax = 256;
// A check reads dead letters that are at least this old, since they are written after the time that
// they bear: those of events under a policy once a token manager has read the handler's report. The
// next check reads the rest.
inline constexpr absl::Duration kLetterSettles = absl::Minutes(1);
inline constexpr size_t kCheckedLettersMax = 10'000;
inline constexpr size_t kCheckedLetterBytesMax = 32 << 20;
// A pause is looked for so long before the last check, too.
inline constexpr absl::Duration kPauseSettles = absl::Minutes(1);

// Rows of waiting events that one GetPolicyUsage counts: then its answer says that there are more.
inline constexpr size_t kUsageRowsMax = 10'000;
// Holders that a gate of ExplainEvent names: more would make its answer long.
inline constexpr size_t kGateHoldersMax = 5;
// Schedules that GetPolicyUsage names, those with most waiting events first.
inline constexpr size_t kUsageWaitersMax = 100;
// Keys that it names: those that wait longest, and then as many of those that hold most.
inline constexpr size_t kUsageKeysMax = 50;
// How far back its history goes.
inline constexpr absl::Duration kUsageHistory = absl::Hours(1);
// Grants, and rows of waiting events, that one ListPolicyKeys reads: then its answer says that
// there are more.
inline constexpr size_t kPolicyKeyRowsMax = 200'000;
// Rates that were measured longer ago are shown as 0: the owner measures with every commit.
inline constexpr absl::Duration kUsageRatesValid = absl::Seconds(10);

// Occurrences of one preview; more is refused.
inline constexpr int32_t kPreviewCountMax = 1000;
inline constexpr int32_t kPreviewCountDefault = 10;
inline constexpr int kPreviewChildrenMax = 1000;  // further ones are not shown
// Occurrences of an interval that one preview looks at, those that are excluded included: beyond it
// fewer are shown, and a warning says so.
inline constexpr size_t kPreviewCandidatesMax = 50'000;
// For warnings: the number of next occurrences among which the shortest distance is taken, and the
// number of an interval's occurrences (excluded ones too) that are searched for them.
inline constexpr size_t kPeriodOccurrencesMax = 1000;
inline constexpr size_t kPeriodCandidatesMax = 4000;
// Occurrences that are compared with one exclusion, and in all: beyond it nothing is said about it.
inline constexpr int kExclusionProbesMax = 400;
inline constexpr int kExclusionProbesAllMax = 2000;
// Changes of the clocks' offset of which one warning each is given.
inline constexpr size_t kOffsetWarningsMax = 5;

// A forecast: its length, and how far ahead it may begin.
inline constexpr absl::Duration kForecastDefault = absl::Hours(24);
inline constexpr absl::Duration kForecastMax = absl::Hours(72);
inline constexpr absl::Duration kForecastAheadMax = absl::Hours(24 * 366);
// Entries of its answer: groups, busy minutes, schedules of a busy minute, quiet minutes.
inline constexpr size_t kForecastGroupsMax = 20;
inline constexpr size_t kForecastBusyMax = 10;
inline constexpr size_t kForecastSourcesMax = 5;
inline constexpr size_t kForecastQuietMax = 5;
// Quiet minutes are at most this many minutes before or after near_time.
inline constexpr int64_t kForecastNearMinutes = 30;
// Counts of groups by minute: beyond it the smaller groups are counted together.
inline constexpr size_t kForecastGroupBytesMax = 64 << 20;
// Units of work (some 100 ns each) of one forecast: beyond it the call is refused. Without jitter
// and even windows a million schedules take a tenth of it.
inline constexpr uint64_t kForecastWorkMax = 200'000'000;
// Units of work of one turn of the executor: other calls wait for so long.
inline constexpr uint64_t kForecastTurnWork = 20'000;
// Forecasts under way in one master; further ones are refused for a moment. Each turn of each of
// them delays other calls.
inline constexpr int kForecastsAtOnceMax = 4;

// Bounds of RedriveDeadLettersRequest.max_per_second; 0 is no limit.
inline constexpr double kRedriveRateMin = 0.001;
inline constexpr double kRedriveRateMax = 100'000;
// Dead letters that one count examines, and their bytes: beyond it the count says that there are
// more.
inline constexpr size_t kDeadLetterCountRowsMax = 100'000;
inline constexpr size_t kDeadLetterCountBytesMax = 64 << 20;
inline constexpr int kPurgeSampleMax = 100;  // names that PurgeDeadLetters answers
// Groups of dead letters: the default of their time, and its parts.
inline constexpr absl::Duration kLetterGroupsDefault = absl::Hours(24);
inline constexpr int kLetterGroupParts = 24;
// Characters of DeadLetterGroup.error: later characters do not tell groups apart.
inline constexpr size_t kLetterErrorCharsMax = 200;
// Dead letters that one turn of the executor groups: other calls wait about 2 ms for it.
inline constexpr uint32_t kGroupedLettersAtOnce = 200;
// Groups that are counted, which bounds the memory of a call: dead letters of further groups are
// left out, and the answer says that there are more.
inline constexpr size_t kLetterGroupsCounted = 10'000;
// Groups of one answer, the largest first.
inline constexpr size_t kLetterGroupsMax = 200;
// Calls of ListDeadLetterGroups under way in one master; further ones are refused for a moment.
// Each takes up to a second of the executor, in turns, and some 10 MB.
inline constexpr int kLetterGroupingsAtOnceMax = 4;
// Dead letters that one step of an operation handles, and the rows and bytes that it reads to find
// them. Bounds the size of its commit.
inline constexpr size_t kOperationLettersMax = 200;
// One-off events that one step of an operation cancels.
inline constexpr size_t kOperationEventsMax = 500;
// Names of one BatchCancelEvents. The operation's record has those that are left, and each step
// writes it.
inline constexpr int kBatchCancelEventsMax = 1000;
// Pages of a list of events that are counted before an operation that cancels them begins.
inline constexpr int kCancelCountPagesMax = 10;
// Distinct delivery records of one-off events that one step may use. Each may have some 500 KiB,
// and a redrive reads and writes it.
inline constexpr size_t kOperationDeliveriesMax = 16;
inline constexpr uint32_t kOperationRowsMax = 1000;
inline constexpr uint32_t kOperationBytesMax = 4 << 20;
// A step of an operation with a rate covers about this much time: a cancel takes effect for what is
// due later.
inline constexpr absl::Duration kOperationStep = absl::Milliseconds(100);
// An operation that is late by at most this catches up; what it is later than that is lost to its
// rate.
inline constexpr absl::Duration kOperationSlack = absl::Milliseconds(200);
// A master leaves an operation that another master works on alone until it has made no progress for
// this long.
inline constexpr absl::Duration kOperationPatience = absl::Seconds(2);
// Pause after a step that the store could not do.
inline constexpr absl::Duration kOperationRetryDelay = absl::Milliseconds(500);
// Running operations of one tenant; further ones are refused.
inline constexpr size_t kOperationsRunningMax = 20;
// Ended operations are kept this long.
inline constexpr absl::Duration kOperationRetention = absl::Hours(24 * 7);

// From the end of one sweep of old rows to the next: of audit and keys, of dead letters and
// operations; and of the rows of targets.
inline constexpr absl::Duration kSweepEvery = absl::Hours(1);
inline constexpr absl::Duration kTargetSweepEvery = absl::Minutes(5);
// Between two sweeps of the rows of deleted tenants. The id of a tenant is free after two sweeps
// that found none: rows that are being worked on move while a sweep reads.
inline constexpr absl::Duration kTenantSweepEvery = absl::Minutes(5);
// The pause between two pages, and rows of one page.
inline constexpr absl::Duration kSweepPause = absl::Milliseconds(100);
inline constexpr uint32_t kSweepRowsMax = 1000;

// Newest versions of a schedule that are kept whatever their age. Older ones are kept until they
// were replaced this long ago: no retry and no hold time lasts longer than 30 days.
inline constexpr uint64_t kVersionsKept = 33;
inline constexpr absl::Duration kVersionKeptFor = absl::Hours(24 * 62);
// A tombstone is kept until the last events of its schedule have ended (no hold time is longer),
// and then for the longer of the tenant's retention and this.
inline constexpr absl::Duration kTombstoneEventsEnd = absl::Hours(24 * 31);
inline constexpr absl::Duration kTombstoneRetentionMin = absl::Hours(24 * 31);
// Versions of one answer of ListScheduleVersions, and those of one read: each may hold a large
// payload.
inline constexpr int kListedVersionsMax = 1000;
inline constexpr uint32_t kListedVersionsAtOnce = 16;
// From the end of one sweep of definitions to the next; the pause between two pages of states, and
// rows of one page. Versions of one schedule that one step of a sweep reads, and their bytes.
inline constexpr absl::Duration kDefinitionSweepEvery = absl::Hours(6);
inline constexpr absl::Duration kDefinitionSweepPause = absl::Milliseconds(100);
inline constexpr uint32_t kDefinitionSweepRowsMax = 1000;
inline constexpr uint32_t kDefinitionSweepVersionsMax = 200;
inline constexpr uint32_t kDefinitionSweepBytesMax = 4 << 20;

// Deliveries of one-off events are kept for so many periods of 28 days before the present one,
// used or not.
inline constexpr int kDeliveryPeriodsKept = 1;

// Remembered answers (request_id): kept at least this long.
inline constexpr absl::Duration kRequestRetention = absl::Hours(24);
// From the end of one look at all of them to the next, if they are one page, or more.
inline constexpr absl::Duration kRequestSweepEvery = absl::Minutes(1);
inline constexpr absl::Duration kRequestSweepEveryOfMany = absl::Hours(1);
// The pause between two pages. The sweep visits the answers of a hundred requests a second for a
// day in a quarter of an hour.
inline constexpr absl::Duration kRequestSweepPause = absl::Milliseconds(100);
inline constexpr uint32_t kRequestSweepRowsMax = 1000;  // rows of one page
inline constexpr uint32_t kRequestSweepBytesMax = 4 << 20;

}  // namespace escapement::master

#endif  // SERVICES_MASTER_BASE_LIMITS_H_
