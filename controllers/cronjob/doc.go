// Package cronjob creates Jobs at the times of CronJobs.
//
//	cronjob.New(cronjob.Config{
//		Process: process, Client: client, Informers: informers, Recorder: recorder,
//	})
//
// The name of a job contains the minute of its time (nightly-29462580), so a time never has two jobs.
// Only the latest time that was missed is made up for.
//
// # The model
//
// One queue has the keys of cron jobs, and one worker syncs a cron job:
//
//  1. While a cache lacks a write of the controller, the sync fails and is retried.
//  2. history.go: old jobs that have finished are deleted.
//  3. active.go: the list of active jobs in the status is compared with the jobs.
//  4. schedule.go finds the latest time that has no job; it is pure. create.go creates the job for it,
//     if the concurrency policy allows that.
//  5. The status is written if it has changed.
//
// A second queue wakes the first at the next time. Its timer is a heartbeat: in a stepped world, the time
// of a schedule comes when time passes for something else, so a CronJob does not keep a world from being
// quiescent. What its jobs wait for, such as ttlSecondsAfterFinished, does, if it takes longer than
// until the next time.
//
// # What it does not do
//
// No metrics.
//
// Upstream: pkg/controller/cronjob (v1.36).
package cronjob
