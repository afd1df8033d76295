package cronjob

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/cronschedule"
)

// clock returns a time of the day, or of another day with the prefix "+1d ".
func clock(t *testing.T, text string) time.Time {
	t.Helper()
	day := 0
	if len(text) > 4 && text[2] == 'd' {
		day, text = int(text[1]-'0'), text[4:]
	}
	at, err := time.Parse("15:04:05", text)
	if err != nil {
		t.Fatal(err)
	}
	return time.Date(2024, 5, 6+day, at.Hour(), at.Minute(), at.Second(), 0, time.UTC)
}

// scheduleCases are the cases of upstream's TestMostRecentScheduleTime and TestNextScheduleTimeDuration.
var scheduleCases = []struct {
	name                    string
	schedule, created, last string
	deadline                *int64
	now                     string
	found                   string // "": none
	missed                  missedTimes
	wait                    time.Duration
}{
	{"now before next schedule", "0 * * * *", "10:00:00", "", nil, "10:00:30", "", noneMissed, 59*time.Minute + 30*time.Second},
	{"now just after next schedule", "0 * * * *", "10:00:00", "", nil, "11:01:00", "11:00:00", noneMissed, 59 * time.Minute},
	{"missed 5 schedules", "0 * * * *", "10:00:10", "", nil, "15:00:10", "15:00:00", fewMissed, 59*time.Minute + 50*time.Second},
	{"more than 100 missed", "* * * * *", "10:00:00", "", nil, "+1d 10:00:00", "+1d 10:00:00", manyMissed, time.Minute},
	{"last schedule, not due", "0 * * * *", "10:00:00", "12:00:00", nil, "12:30:00", "", noneMissed, 30 * time.Minute},
	{"within the deadline", "0 * * * *", "10:00:00", "", ptr.To[int64](3600), "14:10:00", "14:00:00", noneMissed, 50 * time.Minute},
	{"beyond the deadline", "0 * * * *", "10:00:00", "", ptr.To[int64](60), "14:10:00", "", noneMissed, 50 * time.Minute},
	{"irregular", "30 6-16/4 * * 1-5", "06:00:00", "", nil, "+1d 07:00:00", "+1d 06:30:00", fewMissed, 3*time.Hour + 30*time.Minute},
	{"every", "@every 1h30m", "10:00:00", "", nil, "15:00:00", "14:30:00", fewMissed, time.Hour},
}

// TestLongSchedules has times as distances from a Thursday, 10:00.
func TestLongSchedules(t *testing.T) {
	base, deadline := time.Date(2016, 5, 19, 10, 0, 0, 0, time.UTC), ptr.To[int64](10)
	for name, test := range map[string]struct {
		schedule      string
		created, last string // "": it has not run
		deadline      *int64
		now           string
		found         string // "": none
		wait          string // "": not checked
	}{
		"complex schedule":                          {"30 6-16/4 * * 1-5", "0s", "30m", nil, "24h31m", "24h30m", "3h59m"},
		"another complex schedule":                  {"30 10,11,12 * * 1-5", "0s", "30m", nil, "30h30m", "", "66h"},
		"longer diff between executions":            {"30 6-16/4 * * 1-5", "0s", "30m", nil, "96h31m", "96h30m", ""},
		"shorter diff between executions":           {"30 6-16/4 * * 1-5", "0s", "", nil, "24h31m", "24h30m", ""},
		"@every schedule":                           {"@every 1h", "-59m", "1m", deadline, "168h", "167h1m", ""},
		"created and run at the same time":          {"0 * * * *", "0s", "0s", nil, "30s", "", ""},
		"run half an hour after it was created":     {"*/5 * * * *", "0s", "30m", nil, "31m", "", ""},
		"the same, within its deadline":             {"*/5 * * * *", "0s", "30m", ptr.To[int64](60), "31m", "", ""},
		"the same, outside its deadline":            {"*/5 * * * *", "0s", "30m", ptr.To[int64](60), "32m", "", ""},
		"once a week cronjob, missed two runs":      {"0 12 * * 4", "0s", "2h", nil, "457h30m", "338h", "48h30m"},
		"no previous run of a cronjob":              {"0 12 * * 5", "0s", "", nil, "6h", "", "20h"},
		"once a week, missed one run, no last time": {"0 12 * * 5", "0s", "", nil, "30h", "26h", ""},
	} {
		after := func(d string) time.Time {
			length, err := time.ParseDuration(d)
			if err != nil {
				t.Fatal(err)
			}
			return base.Add(length)
		}
		c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(after(test.created))}}
		c.Spec.StartingDeadlineSeconds = test.deadline
		if test.last != "" {
			c.Status.LastScheduleTime = ptr.To(metav1.NewTime(after(test.last)))
		}
		schedule, err := cronschedule.Parse(test.schedule)
		if err != nil {
			t.Fatal(err)
		}
		got, err := latest(c, after(test.now), schedule, test.deadline != deadline)
		if err != nil || got.found != (test.found != "") || got.found && !got.time.Equal(after(test.found)) {
			t.Errorf("%s: %+v, %v; want %q", name, got, err, test.found)
		}
		if test.wait != "" {
			if got, want := untilNext(c, after(test.now), schedule), after(test.wait).Sub(base)+skew; got != want {
				t.Errorf("%s: next after %v, want %v", name, got, want)
			}
		}
	}
}

func cronOf(t *testing.T, created, last string, deadline *int64) *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(clock(t, created))}}
	c.Spec.StartingDeadlineSeconds = deadline
	if last != "" {
		c.Status.LastScheduleTime = ptr.To(metav1.NewTime(clock(t, last)))
	}
	return c
}

func TestLatest(t *testing.T) {
	for _, test := range scheduleCases {
		t.Run(test.name, func(t *testing.T) {
			schedule, err := cronschedule.Parse(test.schedule)
			if err != nil {
				t.Fatal(err)
			}
			late, err := latest(cronOf(t, test.created, test.last, test.deadline), clock(t, test.now), schedule, true)
			if err != nil || late.missed != test.missed || late.found != (test.found != "") {
				t.Fatalf("%+v, %v", late, err)
			}
			if late.found && !late.time.Equal(clock(t, test.found)) {
				t.Errorf("latest %v, want %s", late.time, test.found)
			}
		})
	}
	schedule, err := cronschedule.Parse("59 23 31 2 *")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := latest(cronOf(t, "10:00:00", "", nil), clock(t, "10:00:00"), schedule, true); err == nil {
		t.Error("31 February is no error")
	}
}

func TestUntilNext(t *testing.T) {
	for _, test := range scheduleCases {
		t.Run(test.name, func(t *testing.T) {
			schedule, err := cronschedule.Parse(test.schedule)
			if err != nil {
				t.Fatal(err)
			}
			got := untilNext(cronOf(t, test.created, test.last, test.deadline), clock(t, test.now), schedule)
			if want := test.wait + skew; got != want {
				t.Errorf("next after %v, want %v", got, want)
			}
		})
	}
}
