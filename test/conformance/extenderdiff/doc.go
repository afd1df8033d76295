// Package extenderdiff checks that upstream's scheduler makes of the answers of extenders what the cases of
// scheduler/internal/extender say, against which volsim's own client of extenders is tested.
package extenderdiff
