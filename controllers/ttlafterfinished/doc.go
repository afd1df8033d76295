// Package ttlafterfinished deletes Jobs some time after they have finished.
//
//	ttlafterfinished.New(ttlafterfinished.Config{Process: process, Client: client, Informers: informers})
//
// A job with ttlSecondsAfterFinished is deleted so many seconds after its condition Complete or Failed.
// Its pods are deleted first.
//
// # The model
//
// One queue has the keys of jobs, and one worker. Before it deletes a job it reads it from the server: the
// time may have been changed. Jobs of cron jobs wait in another one, which keeps no stepped world from rest.
//
// # What it does not do
//
// No metrics, and no events: upstream records none.
//
// Upstream: pkg/controller/ttlafterfinished (v1.36).
package ttlafterfinished
