// Package cronschedule parses the schedules of CronJobs.
//
//	schedule, err := cronschedule.Parse("TZ=Europe/Berlin 0 3 * * *")
//	next := schedule.Next(now)
//
// Upstream: pkg/util/parsers ParseCronScheduleWithPanicRecovery (v1.36).
package cronschedule

import (
	"fmt"

	"github.com/robfig/cron/v3"
)

// Parse parses a schedule of five fields, or a descriptor such as @hourly. A text that makes the
// parser panic, such as "TZ=0", is invalid.
func Parse(text string) (schedule cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			schedule, err = nil, fmt.Errorf("invalid schedule format: %v", r)
		}
	}()
	return cron.ParseStandard(text)
}
