"""Operations that are not methods yet; all of them are listed in `alma.operations`."""
