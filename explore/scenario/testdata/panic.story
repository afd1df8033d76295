# Two claims and one volume: one claim gets it, and the other waits until there is a second one.
components: pvcontroller
faults: conflict(0.05), refused(0.03), lost(0.05), relist(0.02), expire(0.01), tick(0.01), crash(pvcontroller, 1), crash(pvcprotection, 1), crash(pvprotection, 1), stop(pvcontroller, 0.003), replicate(pvcontroller, 0.003)
rules: I1
user alice
  create volume disk-1 1Gi
  create claim mail 1Gi class=
user bob
  create claim wiki 1Gi class=
user carol
  wait volume disk-1 Bound
  create volume disk-2 1Gi
  wait claim mail Bound
  wait claim wiki Bound
violates: L7

   4  alice creates volume disk-1 of 1Gi (rv 7)
   7  pvcontroller marks volume disk-1 Available (rv 8)
  10  bob creates claim default/wiki of 1Gi (rv 9)
  13  pvcontroller reserves volume disk-1 for claim default/wiki (rv 10)
  15  pvcontroller marks volume disk-1 Bound (rv 11)
violation: L7: pvcontroller/claims panicked: the map is nil
  in explore/scenario_test.TestStories.fragile.func16.1 (broken_test.go:N)
  in explore/scenario_test.deceived.func1 (broken_test.go:N)
  in pvcontroller.(*Controller).writeClaim (bind.go:N)
  in pvcontroller.(*Controller).bindClaimToVolume (bind.go:N)
  in pvcontroller.(*Controller).bind (bind.go:N)
  in pvcontroller.(*Controller).applyClaim (claim.go:N)
