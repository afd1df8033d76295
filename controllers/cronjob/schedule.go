package cronjob

import (
	"errors"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
)

// skew is how long after its time a job is created: clocks may differ.
//
// Upstream: pkg/controller/cronjob nextScheduleDelta (v1.36).
const skew = 100 * time.Millisecond

// manyTimes is the number of missed times that are reported.
const manyTimes = 100

// missedTimes says how many times of a schedule have passed without a job.
type missedTimes int

const (
	noneMissed missedTimes = iota
	fewMissed
	manyMissed
)

// hasZone reports whether a schedule names a time zone itself.
func hasZone(cron *batchv1.CronJob) bool { return strings.Contains(cron.Spec.Schedule, "TZ") }

// schedule returns the schedule with the time zone.
//
// Upstream: pkg/controller/cronjob formatSchedule (v1.36).
func schedule(cron *batchv1.CronJob) string {
	zone := cron.Spec.TimeZone
	if zone == nil || hasZone(cron) {
		return cron.Spec.Schedule
	}
	if _, err := time.LoadLocation(*zone); err != nil {
		return cron.Spec.Schedule
	}
	return "TZ=" + *zone + " " + cron.Spec.Schedule
}

// A lateTime is the latest time of a schedule that has passed without a job.
type lateTime struct {
	since  time.Time // the time of the last job; without one that of the creation
	time   time.Time
	found  bool
	missed missedTimes
}

// latest returns the latest time that has passed without a job. With obeyDeadline only times within
// startingDeadlineSeconds count.
//
// Upstream: pkg/controller/cronjob mostRecentScheduleTime (v1.36).
func latest(c *batchv1.CronJob, now time.Time, schedule cron.Schedule, obeyDeadline bool) (lateTime, error) {
	late := lateTime{since: c.CreationTimestamp.Time}
	if last := c.Status.LastScheduleTime; last != nil {
		late.since = last.Time
	}
	if seconds := c.Spec.StartingDeadlineSeconds; obeyDeadline && seconds != nil {
		if earliest := now.Add(-time.Duration(*seconds) * time.Second); earliest.After(late.since) {
			late.since = earliest
		}
	}
	first := schedule.Next(late.since)
	second := schedule.Next(first)
	if now.Before(first) {
		return late, nil
	}
	if now.Before(second) {
		late.time, late.found = first, true
		return late, nil
	}
	// A schedule such as 31 February has no next time: it is the zero time.
	period := int64(second.Sub(first).Round(time.Second).Seconds())
	if period < 1 {
		return late, errors.New("time difference between two schedules is less than 1 second")
	}
	passed := int64(now.Sub(first).Seconds())/period + 1
	late.missed = fewMissed
	if passed > manyTimes {
		late.missed = manyMissed
	}
	// Periods may differ in length, so the search begins two periods before the estimate.
	from := first.Add(time.Duration((passed-2)*period) * time.Second)
	for t := schedule.Next(from); !t.After(now); t = schedule.Next(t) {
		late.time, late.found = t, true
	}
	return late, nil
}

// untilNext returns after what time the cron job must be synced for the next time of its schedule.
//
// Upstream: pkg/controller/cronjob nextScheduleTimeDuration (v1.36).
func untilNext(c *batchv1.CronJob, now time.Time, schedule cron.Schedule) time.Duration {
	late, err := latest(c, now, schedule, false)
	from := now
	switch {
	case err != nil:
	case late.found:
		from = late.time
	case late.missed == noneMissed:
		from = late.since
	}
	return schedule.Next(from).Add(skew).Sub(now)
}

// isTooLate reports whether a time is longer ago than startingDeadlineSeconds.
func isTooLate(c *batchv1.CronJob, at, now time.Time) bool {
	seconds := c.Spec.StartingDeadlineSeconds
	return seconds != nil && at.Add(time.Duration(ptr.Deref(seconds, 0))*time.Second).Before(now)
}
