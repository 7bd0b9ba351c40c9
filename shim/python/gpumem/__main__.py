"""python -m gpumem."""
from gpumem import main

main()
