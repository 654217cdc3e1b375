"""``python -m tests.diagnosis`` prints how the twenty cases are answered."""

from tests.diagnosis.evaluate import main

raise SystemExit(main())
