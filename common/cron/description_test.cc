#include <string>
#include <utility>

#include "common/cron/cron_expression.h"
#include "gtest/gtest.h"

namespace escapement::cron {
namespace description_test {

TEST(DescriptionTest, DescribesEachExpression) {
  const std::pair<const char*, const char*> cases[] = {
      {"* * * * *", "Every minute"},
      {"*/1 * * * *", "Every minute"},
      {"*/15 * * * *", "Every 15 minutes"},
      {"0-59/30 * * * *", "Every 30 minutes"},
      {"*/25 * * * *", "At minutes 0, 25 and 50 of every hour"},
      {"5/15 * * * *", "At minutes 5, 20, 35 and 50 of every hour"},
      {"0 * * * *", "Every hour"},
      {"30 * * * *", "At minute 30 of every hour"},
      {"0 */2 * * *", "Every 2 hours"},
      {"0 */6 * * *", "At 00:00, 06:00, 12:00 and 18:00, every day"},
      {"0 9-17 * * 1-5", "Every hour from 09:00 to 17:00, Monday to Friday"},
      {"0 3,6,9 * * *", "At 03:00, 06:00 and 09:00, every day"},
      {"@daily", "At 00:00, every day"},
      {"* 3 * * *", "Every minute from 03:00 to 03:59"},
      {"* 3,9-11 * * *", "Every minute from 03:00 to 03:59 and from 09:00 to 11:59"},
      {"*/5 9-17 * * MON-FRI", "Every 5 minutes from 09:00 to 17:55, Monday to Friday"},
      {"*/20 1/2 * * *",
       "Every 20 minutes of the hours 01, 03, 05, 07, 09, 11, 13, 15, 17, 19, 21 and 23"},
      {"0-4,30 3-20 * * *", "At minutes 0 to 4 and 30 of the hours 03 to 20"},
      {"1-59/2 3-20 * * *", "At 30 different minutes of the hours 03 to 20"},
      {"* * * * * *", "Every second"},
      {"*/10 * * * * *", "Every 10 seconds"},
      {"5 * * * * *", "At second 5 of every minute"},
      {"5,6 * 3 * * *", "At seconds 5 and 6 of every minute of hour 03"},
      {"* 0 3 * * *", "Every second of minute 0 of hour 03"},
      {"*/10 0-4 9-17 * * *", "Every 10 seconds of minutes 0 to 4 of the hours 09 to 17"},
      {"5 4 3 * * *", "At 03:04:05, every day"},
      {"0 4 3 * * *", "At 03:04, every day"},
      {"30 9 * * MON-FRI", "At 09:30, Monday to Friday"},
      {"0 0 * * 5-1", "At 00:00, Friday to Monday"},
      {"0 0 * * 6,0", "At 00:00, on Saturday and Sunday"},
      {"0 0 * * 0-6", "At 00:00, Monday to Sunday"},
      {"0 0 * * SUN,MON,THU", "At 00:00, on Sunday, Monday and Thursday"},
      {"@weekly", "At 00:00, on Sunday"},
      {"0 0 15 * *", "At 00:00, on day 15 of the month"},
      {"0 0 1-7,15 * *", "At 00:00, on days 1 to 7 and 15 of the month"},
      {"0 0 */2 * *", "At 00:00, on any of 16 listed days of the month"},
      {"0 0 L * *", "At 00:00, on the last day of the month"},
      {"0 0 L-1 * *", "At 00:00, on the day before the last day of the month"},
      {"0 0 L-3 * *", "At 00:00, on the day 3 days before the last day of the month"},
      {"0 0 15W * *", "At 00:00, on the weekday nearest day 15 of the month"},
      {"0 0 LW * *", "At 00:00, on the last weekday of the month"},
      {"0 0 L-2W * *",
       "At 00:00, on the weekday nearest the day 2 days before the last day of the month"},
      {"0 0 1,L * *", "At 00:00, on day 1 and the last day of the month"},
      {"0 10 * MAR,JUN TUE#2", "At 10:00, on the second Tuesday of the month, in March and June"},
      {"0 0 * * 5L", "At 00:00, on the last Friday of the month"},
      {"0 0 * * MON,5#1", "At 00:00, on Monday and the first Friday of the month"},
      {"0 0 13 * FRI", "At 00:00, on day 13 of the month or on Friday"},
      {"0 0 13 * MON-FRI", "At 00:00, on day 13 of the month or Monday to Friday"},
      {"0 0 13 * +FRI", "At 00:00, on day 13 of the month, if that is Friday"},
      {"0 0 1-7 * +MON,TUE", "At 00:00, on days 1 to 7 of the month, if that is Monday or Tuesday"},
      {"@yearly", "At 00:00, on day 1 of the month, in January"},
      {"* * * 6-8 *", "Every minute, from June to August"},
      {"0 0 * 1,6-8 *", "At 00:00, every day, in January and June to August"},
      {"0 0 * NOV-FEB *", "At 00:00, every day, in January, February, November and December"},
      {"0 0 0 * * * 2027", "At 00:00, every day, in 2027"},
      {"0 0 0 1 1 * 2027-2030", "At 00:00, on day 1 of the month, in January, from 2027 to 2030"},
      {"0 0 0 * * * 2028/4", "At 00:00, every day, every 4 years from 2028 to 2196"},
      {"0 0 0 * * * 2028-2030,2040", "At 00:00, every day, in 2028 to 2030 and 2040"},
      {"0 0 0 * * * */3,*/7", "At 00:00, every day, in 99 different years from 1970 to 2198"},
  };
  for (const auto& [text, words] : cases) {
    const auto e = ParseCron(text);
    ASSERT_TRUE(e.ok()) << text << e.status();
    EXPECT_EQ(Describe(*e), words) << text;
  }
}

}  // namespace description_test
}  // namespace escapement::cron
