package cronschedule_test

import (
	"testing"
	"time"

	"github.com/volsim/volsim/internal/cronschedule"
)

// TestParse has cases of upstream's TestParseCronSchedule and TestParseCronSchedulePanicRecovery.
func TestParse(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 34, 56, 0, time.UTC)
	for text, want := range map[string]string{
		"0 * * * *":                 "2026-01-02T13:00:00Z",
		"*/5 * * * *":               "2026-01-02T12:35:00Z",
		"@hourly":                   "2026-01-02T13:00:00Z",
		"@every 1h":                 "2026-01-02T13:34:56Z",
		"TZ=UTC 0 3 * * *":          "2026-01-03T03:00:00Z",
		"CRON_TZ=UTC 30 14 * * 1":   "2026-01-05T14:30:00Z",
		"":                          "",
		"0 0 0 * * *":               "",
		"61 * * * *":                "",
		"TZ=0":                      "",
		"TZ=":                       "",
		"CRON_TZ=Europe":            "",
		"TZ=Nowhere/Land 0 3 * * *": "",
	} {
		schedule, err := cronschedule.Parse(text)
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil {
			continue
		}
		if got := schedule.Next(now).UTC().Format(time.RFC3339); got != want {
			t.Errorf("%q: next %s, want %s", text, got, want)
		}
	}
}
