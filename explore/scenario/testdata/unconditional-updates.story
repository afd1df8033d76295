# Two claims and one volume: one claim gets it, and the other waits until there is a second one.
components: pvcontroller
faults: conflict(0.05), refused(0.03), lost(0.05), relist(0.02), expire(0.01), tick(0.01), crash(pvcontroller, 1), crash(pvcprotection, 1), crash(pvprotection, 1), stop(pvcontroller, 0.003), replicate(pvcontroller, 0.003)
rules: I1, I2
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
user dave
  let replicate pvcontroller
schedule
  4 hold: dave
  13 hold: pvcontroller/claims
violates: I2

   4  >> dave is held
   4  alice creates volume disk-1 of 1Gi (rv 7)
   7  pvcontroller/volumes marks volume disk-1 Available (rv 8)
  10  bob creates claim default/wiki of 1Gi (rv 9)
  13  >> pvcontroller/claims is held, before its update of volume disk-1, until step 68
  13  alice creates claim default/mail of 1Gi (rv 10)
  16  >> a second pvcontroller starts: both are active
  23  pvcontroller#2 reserves volume disk-1 for claim default/mail (rv 11)
  26  pvcontroller#2 marks volume disk-1 Bound (rv 12)
  29  pvcontroller#2 binds claim default/mail to volume disk-1 (rv 13)
  32  pvcontroller#2 marks claim default/mail Bound (rv 14)
  42  carol creates volume disk-2 of 1Gi (rv 16)
  46  pvcontroller/volumes marks volume disk-2 Available (rv 17)
  51  pvcontroller#2 reserves volume disk-2 for claim default/wiki (rv 18)
  54  pvcontroller#2 marks volume disk-2 Bound (rv 19)
  57  pvcontroller#2 binds claim default/wiki to volume disk-2 (rv 20)
  60  pvcontroller#2 marks claim default/wiki Bound (rv 21)
  68  pvcontroller/claims reserves volume disk-1 for claim default/wiki instead of its previous claim (rv 22)
      (it decided in step 12, before steps 23 and 26)
violation: I2: a volume rebound to another claim without being unbound in between: volume disk-1 was rebound from claim default/mail (8ff34785) to claim default/wiki (f1bbcdcb)
