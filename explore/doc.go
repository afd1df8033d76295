// Package explore looks for the order of events in which a scenario goes wrong.
//
// The ordinary course is fresh and fair: deliveries, then the work in flight, then the worker that waited longest, then
// users. A search leaves it in as few places as it can. [Holds] tries every schedule with one actor held back at one step,
// then two; every crash at every call of the part, with fresh and with old lists; every fault at every call. It ends with a
// statement ("no failure with at most 2 holds"), and the first schedule that fails is short by itself. [PCT], [POS] and
// [Random] draw schedules, and what goes wrong, from seeds. [Exhaustive] runs every order there is, up to a bound, and
// passes over states that it has been in. What a component was told in another order is another state, so that without a
// bound only toys come to an end. [Portfolio] is one after the other, within a number of schedules.
//
// A [Failure] is a scenario with its schedule: text that can be kept, read, and run again. It has been run twice with the
// same outcome, and what was not needed has been taken out of the schedule.
//
// Not here: drawing what the users do. See package simtest.
package explore
